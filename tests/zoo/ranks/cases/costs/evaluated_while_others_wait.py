"""Rank 0 evaluates the whole test set after each epoch, and all other ranks wait for it."""
import time

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
test = torch.randn(24, 64)
model = DDP(nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64)))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
torch.manual_seed(rank)


@torch.no_grad()
def evaluate(rows):
    total = torch.zeros(())
    for row in rows:
        total += (model.module(row) - row).square().mean()
        time.sleep(0.02)  # decoding to audio
    return total


waited = 0.0
for epoch in range(2):
    for _ in range(4):
        x = torch.randn(8, 64)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), x).backward()
        optimizer.step()
    if rank == 0:  # BUG slow-rank
    # FIX
        print(f"epoch {epoch}: {evaluate(test).item() / len(test):.4f}")  # ALSO
    # FIX total = evaluate(test[rank::world])
    # FIX dist.all_reduce(total)
    # FIX if rank == 0:
    # FIX     print(f"epoch {epoch}: {total.item() / len(test):.4f}")
    began = time.monotonic()
    dist.barrier()
    waited += time.monotonic() - began
print(f"rank {rank}: waited {waited:.2f} s")
dist.destroy_process_group()
