"""Ranks that train together on PyTorch with gloo, recorded and merged."""

from __future__ import annotations

import time

import numpy as np
import pytest

from gradscope.analysis.ranks.collectives import grouped_calls
from gradscope.analysis.ranks.merging.merge import merged
from gradscope.analysis.ranks.waits import rank_waits
from gradscope.analysis.report import inspect
from gradscope.record.process.pace import ACCOUNT, SHARE, FlushPace, Moment, moment, spent
from gradscope.scene.viewer.scene import viewer_scene
from gradscope.trace.schema import Collective, GraphTask
from gradscope.trace.spec import check
from gradscope.trace.trace import Trace
from tests.record.running import House
from tests.shared.forked_starts import GRADSCOPE

pytestmark = pytest.mark.torch

STEPS = 3
SCRIPT = f"""
import os, time
import torch
import torch.distributed as dist
from torch import nn

rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
store = "file://" + os.path.abspath("store")
dist.init_process_group("gloo", init_method=store, rank=rank, world_size=size)
judge, maker = nn.Linear(4, 1), nn.Sequential(*[nn.Linear(4, 4) for _ in range(1 + rank)])
optimizer = torch.optim.SGD([*judge.parameters(), *maker.parameters()], lr=0.1)
for step in range({STEPS}):
    optimizer.zero_grad()
    made = maker(torch.randn(8, 4))
    judge(made.detach()).mean().backward()
    (-judge(made).mean()).backward()
    if rank == 1 and step == 2:
        time.sleep(1)
    for parameter in judge.parameters():
        dist.all_reduce(parameter.grad)
    optimizer.step()
dist.destroy_process_group()
"""


def trained_together(house: House, size: int) -> Trace:
    """The merged trace of ranks with different graphs and two backwards in each step."""
    house.write(SCRIPT)
    command = (GRADSCOPE, "trace", "-q", "--on", "torch", "script.py")
    for ran in house.run_as_ranks(size, *command):
        assert ran.code == 0, ran.err
    return merged([house.recorded(f"trace.rank{rank}.json") for rank in range(size)])


@pytest.mark.parametrize("size", [2, 4])
def test_steps_backwards_and_waits_are_those_of_their_ranks(house: House, size: int) -> None:
    trace = trained_together(house, size)
    report = inspect(trace)

    assert list(check(trace)) == []
    assert (report.summary.steps, report.summary.ranks) == (STEPS, size)
    assert len(trace.table(GraphTask)) == 2 * STEPS * size
    waits = rank_waits(trace)
    assert (waits.collectives, waits.unmatched) == (2 * STEPS, 0)
    [group] = grouped_calls(trace)
    after_sleep = {call.span for call in group.together[4]}
    late = [wait for wait in waits.waits if wait.span in after_sleep]
    assert {wait.step for wait in late} == {2}
    assert {wait.rank for wait in late} == {*range(size)} - {1}
    assert {wait.on for wait in late} == {1}
    backwards = viewer_scene(trace).tables["backwards"]
    ranks, steps = (np.asarray(backwards[name]).tolist() for name in ("rank", "step"))
    assert ranks == [rank for rank in range(size) for _ in range(2 * STEPS)]
    assert steps == [0, 0, 1, 1, 2, 2] * size


UNFIT = """
import os
import torch
import torch.distributed as dist

rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
store = "file://" + os.path.abspath("store")
dist.init_process_group("gloo", init_method=store, rank=rank, world_size=size)
dist.all_reduce(torch.ones(1 + 999 * rank))
"""


def test_a_collective_that_ends_the_process_is_in_its_trace(house: House) -> None:
    house.write(UNFIT)
    command = (GRADSCOPE, "trace", "-q", "--on", "torch", "script.py")

    ended = [ran.code for ran in house.run_as_ranks(2, *command)]

    killed = [rank for rank, code in enumerate(ended) if code < 0]
    assert killed  # by gloo, which finds that sizes differ
    for rank in killed:
        trace = house.recorded(f"trace.rank{rank}.json")
        assert trace.truncated
        [called] = trace.rows(Collective)
        assert called.shape == (1 + 999 * rank,)


# -- ranks that the program starts itself ----------------------------------------------------------

IMPORTS = 300.0
"""Seconds that are enough on a busy machine: each process that is started imports PyTorch."""

STARTS_RANKS = """
import os, sys
import torch
import torch.multiprocessing as mp
from torch.distributed import all_reduce, destroy_process_group, init_process_group

def train(rank, size, fails):
    store = "file://" + os.path.abspath("store")
    init_process_group("gloo", init_method=store, rank=rank, world_size=size)
    net = torch.nn.Linear(2, 1)
    net(torch.ones(3, 2)).sum().backward()
    all_reduce(net.weight.grad)
    destroy_process_group()
    if rank == fails:
        raise ValueError("on purpose")
    print("rank", rank, init_process_group.__module__, train.__name__)
    sys.exit(0)

def nothing(number):
    print(torch.ones(2, requires_grad=True).sum().item())

if __name__ == "__main__":
    how, fails = sys.argv[1], int(sys.argv[2])
    if how == "mp.spawn":
        mp.spawn(train, args=(2, fails), nprocs=2)
    else:
        context = mp.get_context(how)
        ranks = [context.Process(target=train, args=(rank, 2, fails)) for rank in range(2)]
        ranks.append(context.Process(target=nothing, args=(7,)))
        for each in ranks:
            each.start()
        for each in ranks:
            each.join()
        print([each.exitcode for each in ranks])
"""


@pytest.mark.parametrize("how", ["mp.spawn", "forkserver"])
def test_ranks_that_the_program_starts_are_recorded(house: House, how: str) -> None:
    house.write(STARTS_RANKS)

    ran = house.gradscope("trace", "--on", "torch", "script.py", how, "-1", patience=IMPORTS)

    of_ranks = [line for line in ran.out.splitlines() if line.startswith("rank")]
    says = "torch.distributed.distributed_c10d train"
    assert (ran.code, sorted(of_ranks)) == (0, [f"rank {rank} {says}" for rank in range(2)])
    assert ("[0, 0, 0]" in ran.out) == (how != "mp.spawn")
    said = "2 ranks started by the program are in trace.rank0.json, trace.rank1.json"
    assert f"gradscope: {said}" in ran.err
    assert ("1 child process ran unrecorded" in ran.err) == (how != "mp.spawn")
    for rank in range(2):
        trace = house.recorded(f"trace.rank{rank}.json")
        assert (trace.meta["rank"], trace.meta["world_size"]) == (rank, 2)
        assert trace.meta["exit"] == "ok"
        assert [each.rule for each in inspect(trace).findings if each.rule == "GS301"] == []
        assert len(trace.table(GraphTask)) == 1
        assert len(trace.table(Collective)) == 1


def test_the_error_of_a_rank_that_the_program_starts_is_as_alone(house: House) -> None:
    house.write(STARTS_RANKS)

    alone = house.python("script.py", "mp.spawn", "1", patience=IMPORTS)
    (house.folder / "store").unlink(missing_ok=True)
    ran = house.gradscope("trace", "--on", "torch", "script.py", "mp.spawn", "1", patience=IMPORTS)

    assert (ran.code, ran.out) == (alone.code, alone.out)
    said = [line for line in alone.err.splitlines() if "Terminating process" not in line]
    assert "ValueError: on purpose" in said
    assert [line for line in said if line not in ran.err] == []
    assert "started_ranks.py" not in ran.err
    [finding] = inspect(house.recorded("trace.rank1.json")).findings
    assert (finding.rule, finding.site.line) == ("GS301", 15)


# -- how often it is written before ranks wait, without processes ----------------------------------

FLUSH, STEP = 5_000_000, 1_000_000


def flushes(pace: FlushPace, since: int, calls: int, *, is_new: bool = False) -> int:
    """Number of flushes before calls, one each STEP."""
    many = 0
    for call in range(calls):
        if pace.affords(since + call * STEP, is_new=is_new):
            pace.took(FLUSH)
            many += 1
    return many


def test_all_calls_are_written_at_first_and_later_as_many_as_the_share_allows() -> None:
    pace, first = FlushPace(0), ACCOUNT // FLUSH

    assert flushes(pace, 0, first) == first
    many = flushes(pace, first * STEP, 10_000)
    assert many * FLUSH <= 10_000 * STEP / SHARE + 2 * FLUSH
    assert many > 30


def test_new_calls_are_written_when_the_account_is_empty_but_not_for_ever() -> None:
    pace = FlushPace(0)
    flushes(pace, 0, 1000)

    now = 1000 * STEP
    assert pace.affords(now, is_new=True)
    assert not pace.affords(now, is_new=False)
    assert flushes(pace, now, 1000, is_new=True) <= ACCOUNT // FLUSH + 5


def test_a_first_flush_that_takes_long_leaves_time_for_others() -> None:
    pace = FlushPace(0)
    pace.took(40 * ACCOUNT)

    assert flushes(pace, 0, 1000) >= ACCOUNT // 2 // FLUSH
    pace.took(40 * ACCOUNT)
    assert not pace.affords(1000 * STEP, is_new=True)


def test_time_that_other_processes_took_does_not_count_but_waiting_does() -> None:
    began, took = Moment(0, 0, 3), Moment(90, 4, 3)

    assert spent(began, took) == 4  # another process had the processor
    assert spent(began, took._replace(waits=4)) == 90
    assert spent(began._replace(waits=None), took._replace(waits=None)) == 90


def test_a_thread_that_sleeps_waits_and_one_that_computes_is_charged_for_that() -> None:
    began = moment()
    time.sleep(0.02)
    assert spent(began, moment()) >= 20_000_000

    began = moment()
    sum(range(100_000))
    ended = moment()
    computed, passed = ended.computed - began.computed, ended.clock - began.clock
    assert computed > 0
    assert spent(began, ended) == (computed if ended.waits == began.waits is not None else passed)
