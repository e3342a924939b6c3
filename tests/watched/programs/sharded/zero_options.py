"""ZeroRedundancyOptimizer: consolidated state, groups, and steps overlapped with DDP's reductions."""
# ranks: 2

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.ddp_zero_hook import hook_with_zero_step
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.distributed.optim import PostLocalSGDOptimizer, ZeroRedundancyOptimizer
from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
rank = dist.get_rank()


def train(way: str, model, optimizer, steps: int = 4) -> None:
    x = torch.randn(6, 5, generator=torch.Generator().manual_seed(rank))
    for step in range(steps):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        sums = [each.double().sum().item().hex() for each in model.parameters()]
        print(way, step, loss.item().hex(), *sums)


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 7), nn.SiLU(), nn.Linear(7, 1))


model = DDP(net())
optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, parameters_as_bucket_view=True, lr=1e-2)
train("views", model, optimizer)
optimizer.consolidate_state_dict(0)
print(len(optimizer.state_dict()["state"]) if rank == 0 else "")
model = DDP(net())
groups = [{"params": [*model.module[0].parameters()], "lr": 1e-3}, {"params": [*model.module[2].parameters()]}]
train("groups", model, ZeroRedundancyOptimizer(groups, torch.optim.SGD, lr=1e-2, momentum=0.9))
model = net()
averaged = PostLocalSGDOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), PeriodicModelAverager(period=2))
train("averaged", model, averaged)
dist.barrier()
dist.destroy_process_group()
