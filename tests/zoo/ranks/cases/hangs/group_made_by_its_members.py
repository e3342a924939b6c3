"""Groups for data parallelism: each rank makes only the group that it is in."""
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn

dist.init_process_group("gloo", timeout=timedelta(seconds=10))
rank, world = dist.get_rank(), dist.get_world_size()

# one group for the encoder's ranks, one for the decoder's, one for all
everyone = dist.new_group(range(world))
if rank == 0:  # BUG group-on-some-ranks
# FIX
    encoders = dist.new_group([0, 1])  # ALSO
# FIX encoders = dist.new_group([0, 1])

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(3):
    x = torch.randn(6, 5) * (rank + 1)
    optimizer.zero_grad()
    loss = net(x).square().mean()
    loss.backward()
    for parameter in net.parameters():
        dist.all_reduce(parameter.grad, group=everyone)
        parameter.grad /= world
    optimizer.step()
total = loss.detach().clone()
if rank == 0:
# FIX dist.all_reduce(total, group=encoders)
    dist.all_reduce(total, group=encoders)  # ALSO
    # FIX
    print(f"total {total.item():.4f}", flush=True)
# FIX print(f"total {total.item():.4f}", flush=True)
dist.destroy_process_group()
