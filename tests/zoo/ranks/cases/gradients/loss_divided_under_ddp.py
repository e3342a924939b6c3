"""The loss is divided by the number of ranks before the backward, in which DDP averages."""
import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP


def train_step(model, optimizer, x, y, accumulation=2):
    total = 0.0
    optimizer.zero_grad()
    for xs, ys in zip(x.chunk(accumulation), y.chunk(accumulation)):
        loss = nn.functional.cross_entropy(model(xs), ys)
        loss = loss / (accumulation * dist.get_world_size())  # BUG averaged-twice
        # FIX loss = loss / accumulation
        loss.backward()
        total += loss.item()
    optimizer.step()
    return total


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(rank)
model = DDP(nn.Sequential(nn.Linear(12, 24), nn.Tanh(), nn.Linear(24, 4)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
for step in range(4):
    x = torch.randn(16, 12)
    print(f"rank {rank}: step {step}: {train_step(model, optimizer, x, x[:, :4].argmax(1)):.5f}")
dist.destroy_process_group()
