"""Pipelines of several stages: GPipe, 1F1B, interleaved, and zero-bubble schedules."""
# ranks: 2

import warnings

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import pipelining
from torch.distributed.pipelining import PipelineStage

warnings.simplefilter("ignore")
dist.init_process_group("gloo")
rank = dist.get_rank()
WAYS = {"ScheduleGPipe": 1, "Schedule1F1B": 1, "ScheduleInterleaved1F1B": 2, "ScheduleLoopedBFS": 2, "ScheduleInterleavedZeroBubble": 2}


def train(way: str, each: int) -> None:
    torch.manual_seed(0)
    layers = [nn.Sequential(nn.Linear(6, 6), nn.Tanh()) for _ in range(2 * each)]
    mine = [rank + 2 * n for n in range(each)]
    stages = [PipelineStage(layers[n], n, 2 * each, torch.device("cpu")) for n in mine]
    schedule = getattr(pipelining, way)(stages if each > 1 else stages[0], n_microbatches=4, loss_fn=nn.functional.mse_loss)
    parameters = [one for n in mine for one in layers[n].parameters()]
    optimizer = torch.optim.SGD(parameters, lr=0.1)
    data = torch.Generator().manual_seed(9)
    x, y = torch.randn(8, 6, generator=data), torch.randn(8, 6, generator=data)
    for step in range(2):
        optimizer.zero_grad()
        losses = []
        if rank == 0:
            schedule.step(x)
        else:
            schedule.step(target=y, losses=losses)
        sums = [one.grad.double().sum().item().hex() for one in parameters]
        optimizer.step()
        print(way, step, *(loss.item().hex() for loss in losses), *sums)


for way, each in WAYS.items():
    if hasattr(pipelining, way):
        train(way, each)
dist.destroy_process_group()
