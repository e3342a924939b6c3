"""Rank 0 keeps the losses for its curve, and with each of them the graph of its step."""
import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(rank)
model = DDP(nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 32)))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
curve = []


def record(loss):
    if rank == 0:
        curve.append(loss)  # BUG history-kept
        # FIX curve.append(loss.detach())


for step in range(10):
    x = torch.randn(16, 32)
    optimizer.zero_grad()
    reconstruction = model(x)
    loss = nn.functional.mse_loss(reconstruction, x)
    penalty = 1e-3 * reconstruction.abs().mean()
    total = loss + penalty
    total.backward()
    optimizer.step()
    record(total)  # ALSO
with_graph = sum(value.grad_fn is not None for value in curve)
print(f"rank {rank}: {len(curve)} losses, {with_graph} of them with a graph")
dist.destroy_process_group()
