"""A training program of its own package, unedited: alone, resumed, and on two ranks."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from gradscope.trace.schema import Collective, Frame, GraphTask, Module, Span, Step, Thread
from tests.record.running import House, Ran

pytestmark = pytest.mark.torch

PACKAGE = Path(__file__).parents[2] / "shared" / "scripts" / "shapes"
ALONE = ("--amp", "--workers", "2", "--checkpointing", "--epochs", "1", "--out")


@pytest.fixture
def shapes(house: House) -> House:
    shutil.copytree(PACKAGE, house.folder / "shapes")
    return house


def watched(house: House, *arguments: str, before: tuple[str, ...] = ()) -> Ran:
    return house.python(*before, "-m", "gradscope", "trace", "-q", "-m", "shapes", *arguments)


def test_it_trains_and_goes_on_from_its_checkpoint_as_unwatched(shapes: House) -> None:
    """Mixed precision, loader workers, checkpoints, accumulation, schedules, a custom Function."""
    resumed = ("--epochs", "2", "--resume", "--out")
    for arguments in (ALONE, resumed):
        unwatched = shapes.python("-m", "shapes", *arguments, "unwatched")
        ran = watched(shapes, *arguments, "watched")

        assert unwatched.code == 0, unwatched.err
        assert ran == unwatched
        for name in ("last.pt", "history.json"):
            kept = [(shapes.folder / run / name).read_bytes() for run in ("unwatched", "watched")]
            assert kept[0] == kept[1], name

        trace = shapes.recorded()
        assert shapes.violations() == []
        assert len(trace.table(GraphTask)) >= 6
        assert len(trace.table(Step)) == 4
        types = {module.type for module in trace.rows(Module)}
        assert {"Network", "Block", "Squeeze", "Conv2d", "GroupNorm"} <= types
        assert {"AdamW.step", "DataLoader"} <= {span.name for span in trace.rows(Span)}
        files = {frame.file for frame in trace.rows(Frame)}
        assert {"shapes/model.py", "shapes/train.py"} <= files


def in_spite_of_gloo(run: Callable[[], Ran]) -> Ran:
    """Run again what gloo aborted: its threads at times outlive the interpreter, watched or not
    (pytorch/pytorch#190489), since DistributedDataParallel keeps the group it was given."""
    for _ in range(2):
        ran = run()
        if "terminate called without an active exception" not in ran.err:
            return ran
    return run()


def test_two_ranks_train_as_unwatched(shapes: House) -> None:
    """DistributedDataParallel over gloo, with no_sync, and reductions of its own."""
    torchrun = ("-m", "torch.distributed.run", "--nproc-per-node", "2", "--rdzv-backend", "c10d")
    torchrun = (*torchrun, "--rdzv-endpoint", "localhost:0")  # at a port that is free
    arguments = ("--epochs", "1", "--samples", "48", "--out")

    unwatched = in_spite_of_gloo(
        lambda: shapes.python(*torchrun, "-m", "shapes", *arguments, "unwatched")
    )
    ran = in_spite_of_gloo(lambda: watched(shapes, *arguments, "watched", before=torchrun))

    assert unwatched.code == 0, unwatched.err
    sums = [
        sorted(re.findall(r"parameters sum to -?\d+\.\d+(?:e[-+]?\d+)?", each.out))
        for each in (ran, unwatched)
    ]
    assert sums[0] == sums[1]
    assert (ran.code, len(sums[0])) == (0, 2)
    for rank in range(2):
        assert shapes.violations(f"trace.rank{rank}.json") == []
        trace = shapes.recorded(f"trace.rank{rank}.json")
        assert len(trace.table(GraphTask)) == 2
        assert "unseen" not in trace.meta
        assert {thread.rank for thread in trace.rows(Thread)} == {rank}
        called = {row.span for row in trace.rows(Collective) if not row.caller}
        met = [span.name for span in trace.rows(Span) if span.id in called]
        assert met == ["all_reduce", "all_reduce"]  # of the mean loss and the accuracy
