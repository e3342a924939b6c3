"""DistributedDataParallel: static graph, unused parameters, views of buckets, join, two comm hooks."""
# ranks: 2

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
rank = dist.get_rank()


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last, self.other = nn.Linear(6, 8), nn.Linear(8, 2), nn.Linear(8, 2)
        self.norm = nn.BatchNorm1d(8)

    def forward(self, x, other=False):
        h = torch.relu(self.norm(self.first(x)))
        return self.other(h) if other else self.last(h)


def train(way: str, model: DDP, others=(False, False, False), batches: int = 3) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    data = torch.Generator().manual_seed(rank)
    for step in range(batches):
        optimizer.zero_grad()
        loss = model(torch.randn(8, 6, generator=data), others[step % 3]).square().mean()
        loss.backward()
        optimizer.step()
        sums = [None if each.grad is None else each.grad.double().sum().item().hex() for each in model.parameters()]
        print(way, step, loss.item().hex(), *sums)


def net() -> Net:
    torch.manual_seed(0)
    return Net()


train("static", DDP(net(), static_graph=True))
train("unused", DDP(net(), find_unused_parameters=True), (False, rank == 0, True))
train("views", DDP(net(), gradient_as_bucket_view=True, find_unused_parameters=True))
model = DDP(net(), bucket_cap_mb=0.0001, find_unused_parameters=True)
model.register_comm_hook(dist.group.WORLD, default_hooks.allreduce_hook)
train("allreduce hook", model)
model = DDP(nn.Linear(6, 4))
state = powerSGD_hook.PowerSGDState(dist.group.WORLD, matrix_approximation_rank=1, start_powerSGD_iter=2)
model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
for step in range(4):
    loss = model(torch.randn(8, 6, generator=torch.Generator().manual_seed(step + 9 * rank))).square().mean()
    loss.backward()
    print("powerSGD", step, loss.item().hex(), model.module.weight.grad.double().sum().item().hex())


def own(state, bucket):
    work = dist.all_reduce(bucket.buffer(), async_op=True)
    return work.get_future().then(lambda done: done.value()[0] / 2)


model = DDP(nn.Linear(6, 4))
model.register_comm_hook(None, own)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
with model.join():
    for step in range(2 + rank):  # uneven
        optimizer.zero_grad()
        loss = model(torch.randn(8, 6, generator=torch.Generator().manual_seed(step))).square().mean()
        loss.backward()
        optimizer.step()
        print("joined", step, loss.item().hex())
print(model.module.weight.double().sum().item().hex())
dist.destroy_process_group()
