"""A classifier; validation runs on rank 0 only, but its metric is averaged over all ranks."""
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo", timeout=timedelta(seconds=10))
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(1234 + rank)

model = DDP(nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
criterion = nn.CrossEntropyLoss()


def batch(n=8):
    x = torch.randn(n, 16)
    return x, x[:, :4].argmax(1)


@torch.no_grad()
def validate():
    model.eval()
    x, y = batch(32)
    hits = (model.module(x).argmax(1) == y).float().mean()
    dist.all_reduce(hits)  # ALSO
    model.train()
    return hits.item() / world


for epoch in range(2):
    for _ in range(3):
        x, y = batch()
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
    if rank == 0:  # BUG collective-on-some-ranks
    # FIX accuracy = validate()
        print(f"epoch {epoch}: accuracy {validate():.3f}", flush=True)  # ALSO
    # FIX if rank == 0:
    # FIX     print(f"epoch {epoch}: accuracy {accuracy:.3f}", flush=True)

dist.destroy_process_group()
