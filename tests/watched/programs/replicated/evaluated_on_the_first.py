"""Rank 0 evaluates the plain module while the others wait, gathers what they measured, and tells a rate."""
# ranks: 4

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
model = DDP(nn.Sequential(nn.Linear(5, 20), nn.ReLU(), nn.Linear(20, 2)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
draw = torch.Generator().manual_seed(rank)
tests = torch.randn(20, 5, generator=torch.Generator().manual_seed(99))
for epoch in range(3):
    losses = []
    for _ in range(2):
        x = torch.randn(8, 5, generator=draw)
        loss = nn.functional.cross_entropy(model(x), (x.sum(1) > 0).long())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    every = [torch.zeros(2) for _ in range(size)] if rank == 0 else None
    dist.gather(torch.tensor(losses), every, dst=0)
    rate = [None]
    if rank == 0:
        model.module.eval()
        with torch.no_grad():
            right = (model.module(tests).argmax(1) == (tests.sum(1) > 0)).float().mean()
        model.module.train()
        print(epoch, right.item(), torch.stack(every).mean().item().hex())
        rate = [0.2 if right < 0.9 else 0.1]
    dist.broadcast_object_list(rate, src=0)
    for group in optimizer.param_groups:
        group["lr"] = rate[0]
    dist.barrier()
print(*(each.double().sum().item().hex() for each in model.parameters()))
dist.destroy_process_group()
