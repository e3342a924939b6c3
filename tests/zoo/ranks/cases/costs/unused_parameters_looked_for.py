"""DDP looks through the graph for unused parameters in each step, and there are none."""
import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP


class TwoBranches(nn.Module):
    def __init__(self):
        super().__init__()
        self.left, self.right = nn.Linear(8, 8), nn.Linear(8, 8)
        self.gate = nn.Linear(8, 1)

    def forward(self, x):
        g = self.gate(x).sigmoid()
        return g * self.left(x) + (1 - g) * self.right(x)


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(rank)
model = DDP(TwoBranches(), find_unused_parameters=True)  # BUG needless-search
# FIX model = DDP(TwoBranches())
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for step in range(5):
    x = torch.randn(8, 8)
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), x.relu())
    loss.backward()
    optimizer.step()
print(f"rank {rank}: loss {loss.item():.4f}")
dist.destroy_process_group()
