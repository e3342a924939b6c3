"""Population-based training: each rank has settings of its own; the worst takes over the best."""
# ranks: 4

import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(rank)
model = nn.Sequential(nn.Linear(4, 12), nn.ReLU(), nn.Linear(12, 1))
rate = [0.001, 0.01, 0.05, 0.1][rank]
optimizer = torch.optim.SGD(model.parameters(), lr=rate)
draw = torch.Generator().manual_seed(7)
for generation in range(3):
    for _ in range(3):
        x = torch.randn(16, 4, generator=draw)
        loss = nn.functional.mse_loss(model(x), x.sum(1, keepdim=True))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    scores = [torch.zeros(()) for _ in range(size)]
    dist.all_gather(scores, loss.detach())
    order = torch.stack(scores).argsort()
    best, worst = order[0].item(), order[-1].item()
    for parameter in model.parameters():
        copy = parameter.detach().clone()
        dist.broadcast(copy, src=best)
        if rank == worst:
            parameter.data.copy_(copy)
    rates = torch.tensor(optimizer.param_groups[0]["lr"])
    dist.broadcast(rates, src=best)
    if rank == worst:
        optimizer.param_groups[0]["lr"] = rates.item() * 0.8
    print(generation, loss.item().hex(), best, worst)
dist.destroy_process_group()
