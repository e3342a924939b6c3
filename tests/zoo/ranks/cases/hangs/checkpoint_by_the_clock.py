"""A checkpoint is due when a rank's own clock says so, and takes all ranks."""
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo", timeout=timedelta(seconds=10))
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
model = DDP(nn.Linear(8, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
EVERY = 0.5
if rank == 1:
    time.sleep(0.3)  # mounts its data
last_saved = time.monotonic()
dist.barrier()


def save(step):
    norms = [torch.zeros(()) for _ in range(world)] if rank == 0 else None
    dist.gather(sum(p.norm() for p in model.parameters()).detach(), norms)  # ALSO
    if rank == 0:
        torch.save(model.module.state_dict(), f"{step}.pt")


for step in range(6):
    x = torch.randn(8, 8) + rank
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), torch.randint(0, 3, (8,))).backward()
    optimizer.step()
    time.sleep(0.13)
    # ADD late = torch.tensor(float(time.monotonic() - last_saved > EVERY))
    # ADD dist.broadcast(late, 0)
    # ADD if late:
    # ADD     last_saved = time.monotonic()
    # ADD     save(step)
    if time.monotonic() - last_saved > EVERY:  # BUG branch-by-rank
    # FIX
        last_saved = time.monotonic()
        # FIX
        save(step)  # ALSO
        # FIX
print(f"rank {rank} done", flush=True)
dist.destroy_process_group()
