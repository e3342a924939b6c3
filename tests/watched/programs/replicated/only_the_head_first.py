"""A frozen backbone, its head trained first; then all of it, wrapped again, with smaller rates below."""
# ranks: 2

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
backbone = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten())
head = nn.Linear(16, 3)
draw = torch.Generator().manual_seed(rank)


def train(model: nn.Module, optimizer: torch.optim.Optimizer, steps: int, name: str) -> None:
    for step in range(steps):
        x = torch.randn(6, 1, 8, 8, generator=draw)
        y = torch.randint(3, (6,), generator=draw)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        print(name, step, loss.item().hex())


backbone.requires_grad_(False)
backbone.eval()
net = nn.Sequential(backbone, head)
model = DDP(net)
train(model, torch.optim.SGD(head.parameters(), lr=0.1), 3, "head")
del model
backbone.requires_grad_(True)
backbone.train()
model = DDP(net)
groups = [{"params": backbone.parameters(), "lr": 0.01}, {"params": head.parameters()}]
train(model, torch.optim.SGD(groups, lr=0.1), 3, "all")
print(*(each.double().sum().item().hex() for each in net.parameters()))
dist.barrier()
dist.destroy_process_group()
