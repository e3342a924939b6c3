"""Local SGD: each rank takes three steps of its own, then parameters are averaged; four ranks."""
# ranks: 4

import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
draw = torch.Generator().manual_seed(rank)
for step in range(9):
    x = torch.randn(8, 6, generator=draw)
    loss = nn.functional.mse_loss(model(x), x[:, :2].prod(1, keepdim=True))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 3 == 2:
        with torch.no_grad():
            for parameter in model.parameters():
                dist.all_reduce(parameter)
                parameter.div_(size)
    print(step, loss.item().hex())
dist.destroy_process_group()
