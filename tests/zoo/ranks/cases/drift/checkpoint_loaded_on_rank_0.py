"""A checkpoint is loaded on rank 0 only, after DDP was created."""
import os

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP

CHECKPOINT = "pretrained.pt"


def build():
    return nn.Sequential(nn.Linear(7, 14), nn.ReLU(), nn.Linear(14, 2))


dist.init_process_group("gloo")
rank = dist.get_rank()
if rank == 0 and not os.path.exists(CHECKPOINT):  # stands for an earlier run
    torch.manual_seed(5)
    torch.save(build().state_dict(), CHECKPOINT)
dist.barrier()

torch.manual_seed(0)
model = DDP(build())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
if rank == 0:  # BUG written-on-some-ranks
# FIX if os.path.exists(CHECKPOINT):
    print("resuming from", CHECKPOINT)
    model.module.load_state_dict(torch.load(CHECKPOINT))  # ALSO

torch.manual_seed(rank)
for step in range(4):
    x = torch.randn(8, 7)
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), (x[:, 0] > 0).long())
    loss.backward()
    optimizer.step()
print(f"rank {rank}: weights {sum(p.double().sum() for p in model.parameters()).item():.6f}")
dist.destroy_process_group()
