"""What other threads and left-out steps do while nothing is recorded."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any

import gradscope
import gradscope.runtime as torch
from gradscope.record.from_runtime.paused import is_watched
from gradscope.runtime.core import probe
from gradscope.trace import schema
from gradscope.trace.spec import check


@contextmanager
def between_lines_of(codes: set[CodeType], work: Callable[[], object]) -> Iterator[list[int]]:
    """What another thread may do while this one is in the middle of a function."""
    times = [0]

    def traced(frame: FrameType, event: str, _argument: Any) -> Any:
        if frame.f_code not in codes:
            return None
        if event == "line":
            sys.settrace(None)
            work()
            times[0] += 1
            sys.settrace(traced)
        return traced

    sys.settrace(traced)
    try:
        yield times
    finally:
        sys.settrace(None)


def test_a_thread_may_train_at_any_moment_of_a_watchers_coming_and_going() -> None:
    x = torch.ones(2, requires_grad=True)

    waiting = [(x * 2).sum()]

    def train() -> None:
        waiting.pop().backward()  # the leaf's node goes with its graph
        waiting.append((x * 2).sum())

    recording = gradscope.record()
    codes = {each.__code__ for each in (probe.watch, probe.leave, probe.take_callables)}
    with between_lines_of(codes, train) as times:
        recording.start()
        recording.stop()

    assert times[0] > 10
    assert check(recording.trace()) == []


def test_a_leaf_is_led_to_the_node_it_got_in_a_step_that_was_left_out() -> None:
    x = torch.ones(2, requires_grad=True)
    with gradscope.record(steps=(0, 0)) as recording:
        (x * 2).sum().backward()
        gradscope.step(1)
        kept = x * 3
        gradscope.step(0)
        (x * 5 + kept).sum().backward()
    trace = recording.trace()

    assert check(trace) == []
    leaves = [node for node in trace.rows(schema.Node) if node.name == "AccumulateGrad"]
    assert len(leaves) == 2  # the first was gone with the first graph
    into = [edge for edge in trace.rows(schema.Edge) if edge.next == leaves[1].id]
    assert len(into) == 2


def test_a_thread_that_pauses_or_goes_on_after_the_end_changes_nothing() -> None:
    recording = gradscope.record(steps=(1, 2))
    recording.start()
    assert recording.session is not None
    source = recording.session.source
    recording.stop()

    source.pause()  # another thread's backward began a step just before the end
    paused = [is_watched()]
    source.resume()
    with gradscope.record() as following:
        source.resume()
        source.pause()
        (torch.ones(2, requires_grad=True) * 2).sum().backward()

    assert [*paused, is_watched()] == [False, False]
    assert len(following.trace().table(schema.GraphTask)) == 1
