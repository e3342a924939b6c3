"""Losses per task are summed over ranks in the order in which each rank first met the tasks."""
import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP

TASKS = ["depth", "normals", "edges"]

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(rank)
trunk = nn.Linear(9, 9)
heads = nn.ModuleDict({name: nn.Linear(9, 1) for name in TASKS})


class MultiTask(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk, self.heads = trunk, heads

    def forward(self, x, task):
        features = self.trunk(x).tanh()
        unused = sum(p.sum() for p in self.heads.parameters()) * 0.0
        return self.heads[task](features) + unused


model = DDP(MultiTask())
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
scale = {"depth": 1.0, "normals": 10.0, "edges": 100.0}
totals = {}
for step in range(6):
    task = TASKS[(step + rank) % 3]
    x = torch.randn(8, 9)
    optimizer.zero_grad()
    loss = nn.functional.l1_loss(model(x, task), scale[task] * torch.ones(8, 1))
    loss.backward()
    optimizer.step()
    totals[task] = totals.get(task, torch.zeros(())) + loss.detach()

for task, total in totals.items():  # BUG order-of-collectives
# FIX for task, total in sorted(totals.items()):
    dist.all_reduce(total)  # ALSO
    print(f"rank {rank}: {task} {total.item() / (2 * world):.1f}", flush=True)
dist.destroy_process_group()
