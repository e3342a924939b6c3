"""DistributedDataParallel under `torchrun -m gradscope trace`: each rank as unwatched."""

from __future__ import annotations

import pytest

from gradscope.trace.schema import GraphTask, Thread
from tests.record.running import House

pytestmark = pytest.mark.torch

TRAIN = """
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model = DistributedDataParallel(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
for step in range(4):
    optimizer.zero_grad()
    loss = model(torch.full((2, 4), float(rank + step))).square().mean()
    if step == 1:
        with model.no_sync():
            loss.backward(retain_graph=True)
    loss.backward()
    optimizer.step()
    with open(f"{sys.argv[1]}{rank}.txt", "a") as told:
        print(loss.item(), [p.grad.tolist() for p in model.parameters()], file=told)
dist.destroy_process_group()
"""


def told(house: House, name: str) -> list[str]:
    return [(house.folder / f"{name}{rank}.txt").read_text() for rank in range(2)]


def test_two_ranks_train_as_unwatched_and_each_writes_its_trace(house: House) -> None:
    house.write(TRAIN)
    torchrun = ("-m", "torch.distributed.run", "--nproc-per-node", "2", "--rdzv-backend", "c10d")
    torchrun = (*torchrun, "--rdzv-endpoint", "localhost:0")

    unwatched = house.python(*torchrun, "script.py", "alone")
    watched = house.python(*torchrun, "-m", "gradscope", "trace", "-q", "script.py", "watched")

    assert (unwatched.code, watched.code, watched.out) == (0, 0, unwatched.out), watched.err
    assert told(house, "watched") == told(house, "alone")
    for rank in range(2):
        trace = house.recorded(f"trace.rank{rank}.json")
        assert len(trace.table(GraphTask)) == 5
        assert {thread.rank for thread in trace.rows(Thread)} == {rank}
        assert house.violations(f"trace.rank{rank}.json") == []
