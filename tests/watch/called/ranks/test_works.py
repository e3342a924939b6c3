"""Collectives that PyTorch calls in C++, on programs that train on two processes with gloo."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from gradscope.analysis.ranks.collectives import grouped_calls
from gradscope.analysis.ranks.merging.merge import merged
from gradscope.trace.schema import NONE, BackendWork, Collective, Span, Tensor
from gradscope.trace.trace import Trace
from tests.record.running import House

pytestmark = pytest.mark.torch

BEGIN = """
import os, sys, time
import gradscope, torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
recording = gradscope.record(f"trace.rank{rank}.json", on="torch", level="values")
recording.__enter__()
store = "file://" + os.path.abspath("store")
dist.init_process_group("gloo", init_method=store, rank=rank, world_size=size)
"""
END = """
recording.__exit__(*sys.exc_info())
sys.stdout.flush()
os._exit(0)
"""
TRAINING = """
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(300, 400), nn.ReLU(), nn.Linear(400, 400), nn.Linear(400, 3))
model = DistributedDataParallel(net, bucket_cap_mb=0.4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(rank)
for step in range(4):
    optimizer.zero_grad()
    model(torch.randn(8, 300)).square().mean().backward()
    optimizer.step()
"""
CALLED = """
parameter = nn.Parameter(torch.ones(3))
(parameter * (rank + 1)).sum().backward()
dist.all_reduce(parameter.grad)
work = dist.all_reduce(torch.ones(5) * rank, async_op=True)
work.wait()
dist.broadcast(parameter.data, 0)
for _ in range(2):
    dist.all_gather_object([None, None], "x" * (100 * rank))
dist.all_gather([torch.zeros(2), torch.zeros(2)], torch.ones(2))
"""


@dataclass(frozen=True)
class Called:
    """A collective with its work."""

    name: str
    called: Collective
    work: BackendWork | None
    holds: tuple[str, ...]


def called(trace: Trace) -> list[Called]:
    """The collectives of one rank, in the order of time."""
    spans = {row.id: row for row in trace.rows(Span)}
    works = {row.span: row for row in trace.rows(BackendWork)}
    names = {row.id: row.name for row in trace.rows(Tensor)}
    rows = sorted(trace.rows(Collective), key=lambda row: spans[row.span].begin)
    return [
        Called(
            spans[row.span].name, row, works.get(row.span),
            tuple(names[each] for each in row.parameters),
        )
        for row in rows
    ]  # fmt: skip


def ran(house: House, program: str) -> list[Trace]:
    house.write(BEGIN + program + END)
    for process in house.run_as_ranks(2, sys.executable, "script.py"):
        assert process.code == 0, process.err
    return [house.recorded(f"trace.rank{rank}.json") for rank in range(2)]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> list[Trace]:
    """The traces of two ranks of a model with two buckets."""
    return ran(House(tmp_path_factory.mktemp("works")), TRAINING)


def buckets(trace: Trace) -> list[Called]:
    return [each for each in called(trace) if each.called.bucket != NONE]


def test_buckets_of_a_model_are_recorded_with_their_parameters(trained: list[Trace]) -> None:
    first, *rest = buckets(trained[0])

    assert len(first.holds) == 6, "the first backward has one bucket"
    assert [each.called.bucket for each in rest] == [0, 1] * 3
    assert {each.called.caller for each in rest} == {"DistributedDataParallel"}
    held = [name for each in rest[:2] for name in each.holds]
    assert sorted(held) == sorted(first.holds)


def test_what_was_reduced_is_equal_on_all_ranks_afterwards_and_not_before(
    trained: list[Trace],
) -> None:
    pairs = [*zip(buckets(trained[0]), buckets(trained[1]), strict=True)]

    for one, other in pairs:
        assert one.work is not None
        assert other.work is not None
        (before, after), (others_before, others_after) = one.work.hashes, other.work.hashes
        assert before != others_before
        assert after == others_after
        assert one.work.sums[1] == pytest.approx(one.work.sums[0] + other.work.sums[0], rel=1e-4)


def test_a_model_is_copied_at_the_line_that_makes_it(trained: list[Trace]) -> None:
    copies = [each for each in called(trained[0]) if each.name.startswith("broadcast")]
    copied = [each for each in copies if each.called.caller == "DistributedDataParallel"]

    assert copied
    assert all(each.called.stack != NONE for each in copied)


def test_reductions_of_ranks_belong_together(trained: list[Trace]) -> None:
    groups = grouped_calls(merged(trained))

    [reduces] = [group for group in groups if group.reduces]
    assert len(reduces.together) == 7
    assert not reduces.parted
    assert [calls[0].finishes for calls in reduces.together] == [True, *[False, True] * 3]


def test_works_belong_to_the_calls_that_made_them(tmp_path: Path) -> None:
    trace, _ = ran(House(tmp_path), CALLED)
    found = called(trace)

    assert [each.name for each in found] == [
        "all_reduce", "all_reduce, asynchronous", "broadcast", "all_gather_object",
        "all_gather_object", "all_gather",
    ]  # fmt: skip
    gradient, *_ = found
    assert [each.called.holds for each in found] == ["gradients", "", "parameters", "", "", ""]
    assert len(gradient.holds) == 1
    assert gradient.work is not None
    assert gradient.work.sums == (3.0, 9.0)
    assert len([*trace.rows(BackendWork)]) == len(found)
    assert all(each.work is not None and each.work.end != NONE for each in found)


def test_buckets_are_named_if_a_collective_of_the_program_follows_each_step(
    tmp_path: Path,
) -> None:
    """What was written in the second step did not know of the new buckets."""
    each_step = TRAINING + "    dist.all_reduce(torch.ones(2))\n"
    numbers = [
        [row.called.bucket for row in called(trace) if row.called.caller]
        for trace in ran(House(tmp_path), each_step)
    ]

    assert [[each for each in those if each != NONE] for those in numbers] == [[0, *[0, 1] * 3]] * 2
