"""Trains with DistributedDataParallel in its ways, and prints losses and gradients."""

import os
import sys
import warnings

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel

warnings.simplefilter("ignore")
RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
STORE = "file://" + os.path.abspath("store")  # noqa: PTH100
dist.init_process_group("gloo", init_method=STORE, rank=RANK, world_size=SIZE)
models = []  # kept: PyTorch may hang if one is freed while gloo frees its last work


class Model(nn.Module):
    def __init__(self, *, unused):
        super().__init__()
        self.a, self.norm, self.b = nn.Linear(4, 300), nn.BatchNorm1d(300), nn.Linear(300, 300)
        self.c, self.u = nn.Linear(300, 1), nn.Linear(3, 3)
        self.unused = unused

    def forward(self, x, skip):
        x = self.norm(torch.relu(self.a(x)))
        if not skip:
            x = torch.relu(self.b(x))
        x = self.c(x)
        return x if self.unused else x + 0 * self.u.weight.sum() + self.u.bias.sum()


def shown(tensor):
    if tensor is None:
        return "None"
    values = tensor.detach().double()
    return f"{values.sum().item():.6f} {values.abs().max().item():.6f}"


def say(*words):
    sys.stdout.write(" ".join(map(str, (RANK, *words))) + "\n")
    sys.stdout.flush()


def train(name, skip=lambda step: False, accumulate=0, hook=None, unused=False, **options):
    torch.manual_seed(RANK)  # other parameters on each rank, until DDP takes those of rank 0
    model = DistributedDataParallel(Model(unused=unused), **options)
    models.append(model)
    if hook is not None:
        model.register_comm_hook(None, hook)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    data = torch.Generator().manual_seed(100 + RANK)

    def loss_of(step):
        return model(torch.randn(8, 4, generator=data), skip(step)).square().mean()

    for step in range(4):
        optimizer.zero_grad(set_to_none=step % 2 == 0)
        with model.no_sync():
            for _ in range(accumulate):
                loss_of(step).backward()
        loss = loss_of(step)
        loss.backward()
        part = model.module
        seen = (part.a.weight.grad, part.b.weight.grad, part.u.weight.grad, part.norm.running_mean)
        say(name, step, f"{loss.item():.6f}", *map(shown, seen))
        optimizer.step()
    say(name, "end", *map(shown, model.parameters()))


def average(_, bucket):
    work = dist.all_reduce(bucket.buffer() / SIZE, async_op=True)
    return work.get_future().then(lambda done: done.value()[0])


def some_skip(step):
    return step == 1 or (step == 2 and RANK == 0)


train("plain")
train("small", bucket_cap_mb=0.1)
train("views", gradient_as_bucket_view=True)
train("accumulated", accumulate=2)
train("unused", skip=some_skip, unused=True, find_unused_parameters=True)
train("static", unused=True, static_graph=True)
train(
    "unused_views", skip=some_skip, unused=True, find_unused_parameters=True,
    gradient_as_bucket_view=True,
)  # fmt: skip
train("buffers", forward_sync_buffers=False)
train("hooked", hook=average)
train("default_hook", hook=default_hooks.allreduce_hook)
train("half", hook=default_hooks.fp16_compress_hook)
train("wrapped", hook=default_hooks.fp16_compress_wrapper(default_hooks.allreduce_hook))
try:
    train("never_ready", unused=True)
except RuntimeError as error:
    for number, line in enumerate(str(error).splitlines()):
        say("error", number, line)
dist.barrier()
dist.destroy_process_group()
os._exit(0)
