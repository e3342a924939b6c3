"""What a recording numbers, no later one takes for its own."""

from __future__ import annotations

import pytest

import gradscope.runtime as torch
from gradscope.record.from_runtime.c_functions.telling import Functions
from gradscope.record.notes.record_numbers import LONG_WINDOW, RecordNumbers
from gradscope.record.recorder import record
from gradscope.runtime.core import probe
from gradscope.trace.schema import Op
from gradscope.trace.spec import check


@pytest.mark.parametrize("compiled", [False, True])
def test_numbers_given_out_late_belong_to_no_later_recording(compiled: bool) -> None:
    earlier = RecordNumbers()
    if compiled:
        earlier.compile(Functions(), unused=True)
    assert earlier.take() > earlier.base
    earlier.retire()
    later = RecordNumbers()

    late = [earlier.take() for _ in range(3 * LONG_WINDOW)]
    earlier.renew()
    late += [earlier.take(), int(earlier.next())]

    assert all(earlier.base < number <= later.base for number in late)


def test_numbers_are_compiled_late_without_giving_out_new_ones() -> None:
    earlier = RecordNumbers()
    earlier.retire()
    later = RecordNumbers()

    earlier.compile(Functions(), unused=False)

    assert earlier.base < earlier.take() <= later.base


@pytest.mark.parametrize("level", ["engine", "values"])
def test_what_is_told_to_a_recording_that_has_ended_is_new_to_the_next(level: str) -> None:
    """As when a thread is in the middle of many calls while one recording ends and one begins."""
    x = torch.ones(3, requires_grad=True)
    with record(level=level) as ended:
        (x * 2).sum()
        watcher = probe.here
    assert watcher is not None
    with record(level=level) as recording:
        watched = probe.here
        probe.watch(watcher)
        late = x
        for _ in range(2 * LONG_WINDOW):
            late = late * 1.0
        probe.watch(watched)
        late.tanh().sum().backward()

    assert check(ended.trace()) == []
    trace = recording.trace()
    assert check(trace) == []
    assert [op.name for op in trace.rows(Op)] == ["tanh", "sum"]
