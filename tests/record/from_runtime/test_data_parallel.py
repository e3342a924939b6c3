"""DistributedDataParallel of the runtime, recorded: buckets, collectives, and how ranks end."""

from __future__ import annotations

import pytest

from gradscope.analysis.ranks.collectives import grouped_calls
from gradscope.analysis.ranks.merging.merge import merged
from gradscope.analysis.report import inspect
from gradscope.analysis.timing.buckets import Buckets
from gradscope.scene.timeline.events import event_list
from gradscope.scene.timeline.timeline import LaneKind, TimelineOptions, timeline_scene
from gradscope.trace.schema import (
    NONE,
    Collective,
    GraphTask,
    Phase,
    ProcessGroup,
    Replicated,
    Span,
    Thread,
)
from gradscope.trace.spec import check
from gradscope.trace.trace import Trace
from tests.record.running import House, needs_mpi
from tests.shared.forked_starts import GRADSCOPE

TRAIN = """
import os
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

store = "file://" + os.path.abspath("store")
rank, size = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
dist.init_process_group("gloo", init_method=store, rank=rank, world_size=size)
torch.manual_seed(0)
layers = [nn.Linear(64, 64) for _ in range(3)]
model = DistributedDataParallel(nn.Sequential(*layers), bucket_cap_mb=0.01)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(rank)
for step in range(3):
    optimizer.zero_grad()
    loss = model(torch.randn(8, 64)).square().mean()
    loss.backward()
    mean = loss.detach().clone()
    dist.all_reduce(mean)
    optimizer.step()
total = torch.zeros(size * 2)
dist.all_gather_single(total, torch.ones(2))
dist.barrier()
dist.destroy_process_group()
os._exit(0)
"""


def trained(house: House, *options: str, script: str = TRAIN) -> Trace:
    """The trace of one process that is a world of its own."""
    house.write(script)
    ran = house.trace(*options, "script.py")
    assert ran.code == 0, ran.err
    return house.recorded()


def test_buckets_are_filled_again_in_the_order_of_arrival(house: House) -> None:
    trace = trained(house)
    buckets = [trace.once(Buckets).of(task.id) for task in trace.rows(GraphTask)]

    assert check(trace) == []
    assert [len(each) for each in buckets] == [1, 3, 3], "one before the order is known"
    whole, first = buckets[0][0], buckets[1]
    assert [each.number for each in first] == [0, 1, 2]
    arrived = [parameter for each in first for parameter in each.parameters]
    layers = [arrived[at : at + 2] for at in range(0, 6, 2)]
    declared = [list(whole.parameters)[at : at + 2] for at in range(0, 6, 2)]
    assert [sorted(each) for each in layers] == [sorted(each) for each in declared[::-1]]
    assert whole.bytes == sum(each.bytes for each in first) == 3 * (64 * 64 + 64) * 4


def test_each_bucket_is_reduced_on_a_thread_of_its_own_after_it_is_ready(house: House) -> None:
    trace = trained(house)
    spans = {row.id: row for row in trace.rows(Span)}
    names = {row.id: row.name for row in trace.rows(Thread)}
    reduced = [spans[row.span] for row in trace.rows(Collective) if row.bucket != NONE]

    assert {names[row.thread] for row in reduced} == {"collectives"}
    assert {row.phase for row in reduced} == {Phase.COLLECTIVE}
    for task in trace.rows(GraphTask):
        for bucket in trace.once(Buckets).of(task.id):
            assert task.begin <= bucket.ready <= bucket.begin <= bucket.end <= task.end


def test_parameters_that_are_kept_equal_are_named(house: House) -> None:
    trace = trained(house)
    (replicated,) = trace.rows(Replicated)
    (group,) = trace.rows(ProcessGroup)

    assert (replicated.group, group.described, group.members) == (group.id, "default_pg", (0,))
    assert len(replicated.parameters) == 6


def test_a_hook_of_the_program_reduces_buckets_without_an_all_reduce(house: House) -> None:
    hook = """
def halved(state, bucket):
    future = torch.futures.Future()
    future.set_result(bucket.buffer() / 2)
    return future


model.register_comm_hook(None, halved)
optimizer ="""
    trace = trained(house, script=TRAIN.replace("optimizer =", hook, 1))
    buckets = [each for row in trace.rows(GraphTask) for each in trace.once(Buckets).of(row.id)]

    assert {each.begin for each in buckets} == {NONE}
    assert len(buckets) == 7


def test_the_timeline_of_a_backward_has_a_lane_for_each_bucket(house: House) -> None:
    scene = timeline_scene(trained(house))
    lanes = [lane for lane in scene.tasks[1].lanes if lane.kind is LaneKind.BUCKET]

    assert [lane.title for lane in lanes] == ["bucket 0", "bucket 1", "bucket 2"]
    assert all(lane.words == "2 parameters, 16.2 KiB" for lane in lanes)
    assert "all-reduces of 3 buckets took" in scene.tasks[1].notes[-1]


def test_events_of_buckets_are_listed_between_those_of_the_engine(house: House) -> None:
    lines = event_list(trained(house), TimelineOptions(task=1), 0).lines
    kinds = [line.kind for line in lines if line.kind in ("accumulate", "callback", "task_end")
             or line.kind.startswith("bucket")]  # fmt: skip

    assert [line.t for line in lines] == sorted(line.t for line in lines)
    assert kinds[:3] == ["accumulate", "accumulate", "bucket_ready"]
    assert kinds.count("bucket_reduce_begin") == kinds.count("bucket_reduce_end") == 3
    assert kinds[-1] == "task_end"
    ready = [line.details for line in lines if line.kind == "bucket_ready"]
    assert ready == [f"bucket {number}, 2 parameters, 16.2 KiB" for number in range(3)]


@pytest.mark.parametrize("level", ["graph", "engine", "values", "full"])
def test_nothing_is_found_in_a_healthy_program_at_any_level(house: House, level: str) -> None:
    trace = trained(house, "--level", level)

    assert check(trace) == []
    assert [each.message for each in inspect(trace).findings] == []


# Two ranks ---------------------------------------------------------------------------------------


def together(house: House, script: str = TRAIN, *, code: int = 0) -> Trace:
    """The merged trace of two ranks over MPI."""
    house.write(script)
    ran = house.run_by_mpi(2, "script.py")
    assert (ran.code == 0) == (code == 0), ran.err
    return merged([house.recorded(f"trace.rank{rank}.json") for rank in range(2)])


@needs_mpi
def test_ranks_call_the_same_and_nothing_is_found(house: House) -> None:
    trace = together(house)
    groups = {group.reduces: group for group in trace.once(grouped_calls)}

    assert check(trace) == []
    assert [group.parted for group in groups.values()] == [{}, {}]
    assert len(groups[True].together) == 7
    assert len(groups[False].together) == 1 + 1 + 3 + 2, "parameters, order, losses, the end"
    assert [each.message for each in inspect(trace).findings] == []


@needs_mpi
def test_a_rank_that_waits_for_one_that_has_ended_raises(house: House) -> None:
    trace = together(
        house,
        """
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
dist.all_reduce(torch.ones(1))
if dist.get_rank() == 1:
    raise ValueError("broken")
dist.all_reduce(torch.ones(1))
""",
        code=1,
    )
    found = [each.message for each in inspect(trace).findings]

    assert len(found) == 3
    assert "Rank 1 never called all_reduce" in found[0]
    assert "rank 1 has ended, and will not take part in all_reduce" in found[1]
    assert "ValueError: broken" in found[2]


@needs_mpi
def test_an_all_reduce_that_not_all_ranks_call_ends_at_the_limit_of_time(house: House) -> None:
    script = """
import datetime
import time
import torch
import torch.distributed as dist

dist.init_process_group("mpi", timeout=datetime.timedelta(seconds=1))
try:
    if dist.get_rank() == 0:
        dist.all_reduce(torch.ones(1))
except dist.DistBackendError as error:
    print(error)
if dist.get_rank() == 1:
    time.sleep(2)
"""
    house.write(script)
    ran = house.run_by_mpi(2, "script.py")

    assert "all_reduce in default_pg did not end within 1 s" in ran.out, ran.err


@needs_mpi
def test_a_rank_that_ends_at_once_lets_the_others_write_their_traces(house: House) -> None:
    """MPICH's mpiexec kills all ranks when one has called os._exit."""
    script = """
import os
import time
import torch
import torch.distributed as dist

for _ in range(2):
    dist.init_process_group("mpi")
    x = torch.ones(1)
    dist.all_reduce(x)
    dist.destroy_process_group()
if dist.get_node_local_rank() == 1:
    time.sleep(1)
print(int(os.environ["RANK"]), x.tolist(), flush=True)
os._exit(0)
"""
    trace = together(house, script)

    assert len(trace.once(grouped_calls)[0].together) == 2
    assert [each.message for each in inspect(trace).findings] == []


@needs_mpi
@pytest.mark.torch
@pytest.mark.slow
def test_the_programs_own_collectives_are_recorded_as_on_pytorch(house: House) -> None:
    def own(trace: Trace) -> list[tuple[object, ...]]:
        rows = {row.span: row for row in trace.rows(Collective)}
        return [
            (row.name, rows[row.id].shape, rows[row.id].dtype)
            for row in trace.rows(Span)
            if row.phase == Phase.COLLECTIVE and not rows[row.id].caller
        ]

    together(house)
    ours = house.recorded("trace.rank1.json")
    (house.folder / "trace.rank1.json").unlink()
    command = (GRADSCOPE, "trace", "-q", "--on", "torch", "script.py")
    assert [ran.code for ran in house.run_as_ranks(2, *command)] == [0, 0]
    theirs = house.recorded("trace.rank1.json")

    assert own(ours) == own(theirs)
    groups = [[(row.described, row.members) for row in each.rows(ProcessGroup)]
              for each in (ours, theirs)]  # fmt: skip
    assert groups[0] == groups[1] == [("default_pg", (0, 1))]
    assert [len(row.parameters) for each in (ours, theirs) for row in each.rows(Replicated)] == [
        6,
        6,
    ]
