"""LayerDrop: each rank draws which layer it leaves out, so some parameters get no gradient there."""
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Encoder(nn.Module):
    def __init__(self, width=8, depth=4):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, x, dropped):
        for i, layer in enumerate(self.layers):
            if i == dropped:  # BUG unused-on-some-ranks
            # FIX
                continue  # ALSO
            # FIX
            x = x + layer(x).relu()
            # FIX kept = 0.0 if i == dropped else 1.0
            # FIX x = x + kept * layer(x).relu()
        return x


dist.init_process_group("gloo", timeout=timedelta(seconds=10))
rank = dist.get_rank()
torch.manual_seed(rank)
model = DDP(Encoder())
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(4):
    x = torch.randn(6, 8)
    dropped = (step + rank) % 5
    optimizer.zero_grad()
    loss = (model(x, dropped) - x.roll(1, 1)).square().mean()
    loss.backward()
    optimizer.step()
    print(f"rank {rank}: step {step}, loss {loss.item():.4f}", flush=True)
dist.destroy_process_group()
