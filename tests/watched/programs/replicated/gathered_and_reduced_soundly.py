"""Collectives beside a graph: gathered parts put back, logged copies, running averages, own functions."""
# ranks: 2

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel as DDP


class SumOverRanks(torch.autograd.Function):
    """The sum over ranks, whose gradient is summed, too."""

    @staticmethod
    def forward(ctx, x):
        total = x.clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx, grad):
        total = grad.clone()
        dist.all_reduce(total)
        return total


class Towers(nn.Module):
    def __init__(self):
        super().__init__()
        self.left, self.right, self.gate = nn.Linear(6, 4), nn.Linear(5, 4), nn.Linear(4, 4)
        self.register_buffer("mean", torch.zeros(4))

    def forward(self, x, y):
        left = functional.normalize(self.left(x), dim=1)
        return left, functional.normalize(self.right(y), dim=1), self.gate(left)


def put_back(features):
    parts = [torch.zeros_like(features) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, features)
    parts[dist.get_rank()] = features
    return torch.cat(parts)


def put_back_into_one(features):
    whole = torch.zeros(dist.get_world_size() * len(features), features.shape[1])
    dist.all_gather_into_tensor(whole, features.detach())
    whole[dist.get_rank() * len(features) :][: len(features)] = features
    return whole


@torch.no_grad()
def gathered_keys(features):
    parts = [torch.zeros_like(features) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, features)
    return torch.cat(parts)


def meter(loss):
    total = loss.detach().clone()
    dist.all_reduce(total)
    return total / dist.get_world_size()


dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(rank)
model, teacher = DDP(Towers()), Towers()
teacher.load_state_dict(model.module.state_dict())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
queue = functional.normalize(torch.randn(8, 4), dim=1)
for step in range(4):
    x, y = torch.randn(4, 6), torch.randn(4, 5)
    left, right, gate = model(x, y)
    lefts, rights = put_back(left), put_back_into_one(right)
    labels = torch.arange(4) + 4 * rank
    loss = functional.cross_entropy(left @ rights.T, labels) + functional.cross_entropy(right @ lefts.T, labels)

    with torch.no_grad():
        keys = gathered_keys(teacher(x, y)[0])
    loss = loss + functional.cross_entropy(left @ torch.cat([keys, queue]).T, labels)
    queue = torch.cat([queue, keys])[-8:]

    mean = SumOverRanks.apply(left.sum(0)) / (world * len(left))
    loss = loss + (left - mean).square().mean()

    total = left.detach().clone()
    dist.all_reduce(total)
    passed_straight = left + (total - left.detach())
    loss = loss + 0.1 * passed_straight.square().mean()

    largest = (left @ right.T).amax(1, keepdim=True).detach()
    dist.all_reduce(largest, op=dist.ReduceOp.MAX)
    loss = loss + (left @ right.T - largest).exp().sum(1).log().mean()

    model.module.mean.lerp_(meter(right.mean(0)), 0.1)
    loss = loss + 0.01 * (right - model.module.mean).square().mean()

    counted = torch.tensor([float(len(x))])
    work = dist.all_reduce(counted, async_op=True)
    loss = loss + gate.square().sum() / 100
    work.get_future().wait()
    loss = loss * (world * len(x)) / counted.sum()

    scaled = loss * 1.0
    dist.all_reduce(scaled)
    scaled = scaled * 0.25
    optimizer.zero_grad()
    scaled.backward()
    optimizer.step()
    shown = meter(loss)
    dist.all_reduce(loss)
    print(step, shown.item().hex(), (loss / world).item().hex(), flush=True)

    others = {f"task {name}": (left * name).sum().detach() for name in (1, 2)}
    for name, value in others.items():
        dist.all_reduce(value)
        print(name, round(value.item(), 4), flush=True)
dist.destroy_process_group()
