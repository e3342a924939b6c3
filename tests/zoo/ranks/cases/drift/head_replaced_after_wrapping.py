"""The classification head is replaced for the new task, inside of a model that is wrapped."""
import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Backbone(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Linear(24, 24), nn.ReLU())
        self.head = nn.Linear(24, classes)

    def forward(self, x):
        return self.head(self.body(x))


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(rank)
pretrained = Backbone(classes=100)
# ADD pretrained.head = nn.Linear(24, 5)
model = DDP(pretrained, find_unused_parameters=True)
# FIX model = DDP(pretrained)
model.module.head = nn.Linear(24, 5)  # BUG outside-of-ddp
# FIX

optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for step in range(5):
    x = torch.randn(8, 12)
    y = x[:, :5].argmax(1)
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
    if rank == 0:
        print("step", step)
for name, parameter in model.module.named_parameters():
    print(f"rank {rank}: {name} {parameter.double().sum().item():.6f}")
dist.destroy_process_group()
