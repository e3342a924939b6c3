"""Gradients are averaged by hand, parameter by parameter, as in the first tutorial; four ranks."""
# ranks: 4

import torch
import torch.distributed as dist
from torch import nn


class Partition:
    def __init__(self, many: int, rank: int, size: int) -> None:
        order = torch.randperm(many, generator=torch.Generator().manual_seed(1234))
        self.indices = order[rank::size]


def average_gradients(model: nn.Module) -> None:
    size = float(dist.get_world_size())
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad, op=dist.ReduceOp.SUM)
        parameter.grad /= size


dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(1234)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.5)
x = torch.randn(64, 8)
y = x[:, :4].argmax(1)
own = Partition(64, rank, size).indices
for epoch in range(3):
    total = 0.0
    for rows in own.split(8):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x[rows]), y[rows])
        total += loss.item()
        loss.backward()
        average_gradients(model)
        optimizer.step()
    print(epoch, (total / len(own.split(8))).hex())
dist.destroy_process_group()
