"""Rank 0 swaps in averaged weights to evaluate, and never swaps the trained ones back."""
import copy

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP


class EMA:
    def __init__(self, model, decay=0.8):
        self.decay = decay
        self.shadow = {k: v.clone() for k, v in model.state_dict().items()}
        self.backup = None

    def update(self, model):
        for name, value in model.state_dict().items():
            self.shadow[name].lerp_(value, 1 - self.decay)

    def apply(self, model):
        self.backup = copy.deepcopy(model.state_dict())
        model.load_state_dict(self.shadow)  # ALSO

    def restore(self, model):
        model.load_state_dict(self.backup)


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(rank)
model = DDP(nn.Sequential(nn.Linear(8, 16), nn.SiLU(), nn.Linear(16, 8)))
ema = EMA(model.module)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for step in range(6):
    x = torch.randn(16, 8)
    optimizer.zero_grad()
    nn.functional.mse_loss(model(x), x.flip(1)).backward()
    optimizer.step()
    ema.update(model.module)
    if step % 3 == 1 and rank == 0:  # ALSO
        ema.apply(model.module)  # BUG written-on-some-ranks
        with torch.no_grad():
            print(f"step {step}: ema loss {nn.functional.mse_loss(model.module(x), x.flip(1)):.4f}")
        # ADD ema.restore(model.module)
print(f"rank {rank}: weights {sum(p.double().sum() for p in model.parameters()).item():.6f}")
dist.destroy_process_group()
