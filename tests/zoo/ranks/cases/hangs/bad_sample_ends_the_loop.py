"""Gradients are averaged by hand, and one rank leaves its loop at a sample it cannot read."""
import torch
import torch.distributed as dist
import torch.nn as nn
from datetime import timedelta

dist.init_process_group("gloo", timeout=timedelta(seconds=10))
rank = dist.get_rank()
torch.manual_seed(0)
model = nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)


def read(number):
    x = torch.randn(8, 8)
    if rank == 1 and number == 5:
        x[0, 0] = float("nan")
    return x


def average():
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()


def train():
    torch.manual_seed(1 + rank)
    for number in range(8):
        x = read(number)
        if not x.isfinite().all():  # BUG branch-by-rank
            raise ValueError(f"sample {number} is broken")  # ALSO
            # FIX x = x.nan_to_num()
        optimizer.zero_grad()
        (model(x) - x.sum(1, keepdim=True)).square().mean().backward()
        average()
        optimizer.step()


try:
    train()
except ValueError as error:  # ALSO
    print(f"rank {rank}: {error}")
print(f"rank {rank}: {sum(p.double().sum() for p in model.parameters()).item():.5f}")
