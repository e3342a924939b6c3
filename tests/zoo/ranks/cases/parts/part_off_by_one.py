"""The rows of a rank are cut out by hand, and the second part begins in the first one."""
import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP

BATCH = 6


def batches_of(rows, rank, world):
    per_rank = len(rows) // world
    first = max(rank * per_rank - BATCH, 0)  # BUG overlapping-parts
    # FIX first = rank * per_rank
    return rows[first : first + per_rank].split(BATCH)  # ALSO


dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
rows = torch.randn(48, 5)
model = DDP(nn.Sequential(nn.Linear(5, 10), nn.Tanh(), nn.Linear(10, 5)))
optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
for epoch in range(2):
    for batch in batches_of(rows, rank, world):  # ALSO
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(batch), batch)
        loss.backward()
        optimizer.step()
first, *_, last = batches_of(rows, rank, world)
print(f"rank {rank}: first {first.sum().item():.4f}, last {last.sum().item():.4f}")
dist.destroy_process_group()
