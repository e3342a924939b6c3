"""Model weights are resumed on all ranks, the state of the optimizer only on rank 0."""
import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(rank)


def make():
    model = DDP(nn.Sequential(nn.Linear(9, 18), nn.Tanh(), nn.Linear(18, 1)))
    return model, torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)


def train(model, optimizer, steps):
    for _ in range(steps):
        x = torch.randn(8, 9)
        optimizer.zero_grad()
        nn.functional.smooth_l1_loss(model(x), x.sum(1, keepdim=True)).backward()
        optimizer.step()  # ALSO


first, optimizer = make()
train(first, optimizer, 4)
if rank == 0:
    torch.save({"model": first.module.state_dict(), "optim": optimizer.state_dict()}, "last.pt")
dist.barrier()

model, resumed = make()
checkpoint = torch.load("last.pt")
model.module.load_state_dict(checkpoint["model"])
if rank == 0:  # BUG optimizer-state-differs
# FIX
    resumed.load_state_dict(checkpoint["optim"])  # ALSO
# FIX resumed.load_state_dict(checkpoint["optim"])
train(model, resumed, 4)
print(f"rank {rank}: weights {sum(p.double().sum() for p in model.parameters()).item():.6f}")
dist.destroy_process_group()
