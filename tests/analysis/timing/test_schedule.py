from __future__ import annotations

import pytest

from gradscope.analysis.identity.backwards import backward_numbered, backward_numbers, backwards
from gradscope.analysis.identity.sites import Site
from gradscope.analysis.timing.schedule import (
    Accumulated,
    Execution,
    HookCall,
    QueueSample,
    Schedule,
    schedule,
)
from gradscope.errors import UnknownNameError
from gradscope.trace.schema import (
    NONE,
    Accumulate,
    Accumulation,
    Decrement,
    Error,
    Frame,
    GraphTask,
    HookBegin,
    HookEnd,
    HookKind,
    Node,
    NodeBegin,
    NodeEnd,
    Pop,
    Push,
    Skipped,
    Stack,
)
from gradscope.trace.trace import Trace
from tests.shared.by_hand import trace_of


def schedule_of(trace: Trace, task: int) -> Schedule:
    return schedule(trace, trace.table(GraphTask).row(task))


def test_a_node_waits_for_its_gradients_and_then_in_the_queue() -> None:
    trace = trace_of(
        Node(0, "Add"),
        Node(1, "Mul"),
        GraphTask(0, roots=(0,), begin=1, end=90),
        Push(t=2, thread=0, task=0, node=0, length=1),
        Pop(t=3, thread=0, task=0, node=0, length=0),
        NodeBegin(t=4, thread=0, task=0, node=0),
        NodeEnd(t=10, thread=0, task=0, node=0),
        Decrement(t=11, thread=0, task=0, node=1, source=0, index=0, remaining=1),
        Decrement(t=12, thread=0, task=0, node=1, source=0, index=1, remaining=0),
        Push(t=13, thread=0, task=0, node=1, length=1),
        Pop(t=20, thread=0, task=0, node=1, length=0),
        NodeBegin(t=21, thread=0, task=0, node=1),
    )

    facts = schedule_of(trace, 0)

    assert facts.executions == (
        Execution(0, 1, 0, 0, ready=2, begin=4, end=10, self_ns=6, failed=False, waited_for=()),
        Execution(
            1, 2, 0, 0, ready=13, begin=21, end=NONE, self_ns=NONE, failed=False, waited_for=(0, 0)
        ),
    )
    assert [run.queued_ns for run in facts.executions] == [2, 8]
    assert facts.queue == (
        QueueSample(2, 0, 1),
        QueueSample(3, 0, 0),
        QueueSample(13, 0, 1),
        QueueSample(20, 0, 0),
    )


def test_a_backward_that_did_not_end_lasts_until_its_last_event() -> None:
    trace = trace_of(GraphTask(0, begin=1), NodeBegin(t=7, task=0, node=0))

    assert schedule_of(trace, 0).end == 7


def test_calls_of_hooks_are_matched_like_brackets() -> None:
    trace = trace_of(
        Frame(0, "train.py", 9, "<module>", "w.register_hook(clip)"),
        Stack(0, 0),
        GraphTask(0),
        HookBegin(t=1, task=0, node=5, hook=HookKind.PRE, stack=0, name="clip"),
        HookBegin(t=2, task=0, node=5, hook=HookKind.PRE, stack=0, name="clip"),
        HookEnd(t=3, task=0, node=5, hook=HookKind.PRE, replaced=True),
        HookEnd(t=4, task=0, node=5, hook=HookKind.PRE),
        HookBegin(t=6, task=0, node=5, hook=99, index=1, name="lost"),
    )
    site = Site("train.py:9", "w.register_hook(clip)")

    assert schedule_of(trace, 0).hooks == (
        HookCall(5, HookKind.PRE, "clip", NONE, 1, 4, replaced=False, site=site),
        HookCall(5, HookKind.PRE, "clip", NONE, 2, 3, replaced=True, site=site),
        HookCall(5, None, "lost", NONE, 6, NONE, replaced=False, site=Site()),
    )


def test_only_events_of_the_graph_task_belong_to_it() -> None:
    trace = trace_of(
        GraphTask(0),
        GraphTask(1, parent=0, depth=1),
        Accumulate(t=1, task=0, node=3, tensor=4, how=Accumulation.IN_PLACE),
        Accumulate(t=2, task=1, node=3, tensor=4, how=Accumulation.STOLEN),
        Skipped(t=3, task=1, node=8),
        Error(t=4, task=1, node=3, type="ValueError", message="no"),
    )

    facts = schedule_of(trace, 1)

    assert facts.accumulated == (Accumulated(2, NONE, 3, 4, Accumulation.STOLEN),)
    assert facts.skipped == (8,)
    assert [error.message for error in facts.errors] == ["no"]


def test_backwards_are_numbered_in_the_order_in_which_they_began() -> None:
    trace = trace_of(GraphTask(7, begin=5, step=0), GraphTask(9, begin=2, step=1))

    assert [task.id for task in backwards(trace)] == [9, 7]
    assert [task.id for task in backwards(trace, [0])] == [7]
    assert backward_numbers(trace) == {9: 0, 7: 1}
    assert backward_numbered(trace, 1).id == 7


def test_a_number_that_no_backward_has_is_answered_with_those_there_are() -> None:
    with pytest.raises(UnknownNameError, match="no backward 3: its backwards are 0 to 0"):
        backward_numbered(trace_of(GraphTask(3)), 3)
    with pytest.raises(UnknownNameError, match="no backward 0: it has none"):
        backward_numbered(trace_of(), 0)
