"""All ranks resume from the checkpoint that rank 0 writes; nobody waits until it is written."""
import os
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo", timeout=timedelta(seconds=10))
rank = dist.get_rank()
path = "checkpoint.pt"

torch.manual_seed(0)
model = DDP(nn.Sequential(nn.Linear(10, 10), nn.Tanh(), nn.Linear(10, 1)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def save():
    if rank == 0:
        time.sleep(0.5)  # a large model, a slow disk
        torch.save(model.state_dict(), path + ".tmp")
        os.replace(path + ".tmp", path)


def steps(count):
    for _ in range(count):
        x = torch.randn(8, 10) + rank
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), x.mean(1, keepdim=True))
        loss.backward()
        optimizer.step()
    return loss.item()


steps(3)
save()
# ADD dist.barrier()
best = torch.load(path, map_location="cpu")  # BUG barrier-missing
model.load_state_dict(best)
print(f"rank {rank}: {steps(3):.4f}", flush=True)
dist.barrier()
dist.destroy_process_group()
