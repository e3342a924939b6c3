"""The loss that is logged is averaged in place, and then it is the loss of the backward."""
import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP


def mean_over_ranks(value):
    # ADD value = value.detach().clone()
    dist.all_reduce(value)  # ALSO
    return value / dist.get_world_size()  # BUG no-gradient-through


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(rank)
model = DDP(nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 1)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    x = torch.randn(8, 6)
    optimizer.zero_grad()
    loss = nn.functional.l1_loss(model(x), x.amax(1, keepdim=True))
    loss = mean_over_ranks(loss)  # ALSO
    # FIX logged = mean_over_ranks(loss)
    loss.backward()
    optimizer.step()
    # ADD loss = logged
    if rank == 0:
        print(f"step {step}: {loss.item():.5f}")
print(f"rank {rank}: weights {sum(p.double().sum() for p in model.parameters()).item():.6f}")
dist.destroy_process_group()
