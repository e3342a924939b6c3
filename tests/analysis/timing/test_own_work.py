"""What gradscope did for itself belongs to nobody's time."""

from __future__ import annotations

from gradscope.analysis.program.summary import summary
from gradscope.analysis.timing.durations import (
    Timing,
    backward_ns_of_modules,
    timing_by_node_name,
    timing_by_op,
)
from gradscope.analysis.timing.own_work import OwnWork, own_work
from gradscope.analysis.timing.phases import ProgramPart
from gradscope.analysis.timing.schedule import schedule
from gradscope.trace.schema import (
    GraphTask,
    Module,
    Node,
    NodeBegin,
    NodeEnd,
    Op,
    Phase,
    Pop,
    Push,
    Row,
    Span,
    Thread,
)
from gradscope.trace.trace import Trace
from tests.shared.by_hand import trace_of

OWN = Phase.OWN_WORK


def compiled(*more: Row) -> Trace:
    """A call of 100 ns and a backward of 1,000, of which gradscope took 60 and 700."""
    return trace_of(
        Thread(0),
        Thread(1),
        Module(0, "lstm"),
        Op(0, "sum", begin=0, end=100, thread=0),
        Node(0, "SumBackward0", op=0, module=0),
        Node(1, "MulBackward0", module=0),
        GraphTask(0, thread=0, begin=1_000, end=2_000),
        Push(t=1_000, thread=0, task=0, node=0),
        Pop(t=1_100, thread=0, task=0, node=0),
        NodeBegin(t=1_100, thread=0, task=0, node=0),
        NodeEnd(t=1_900, thread=0, task=0, node=0),
        NodeBegin(t=1_920, thread=0, task=0, node=1),
        NodeEnd(t=1_950, thread=0, task=0, node=1),
        Span(0, "gradscope loads sum", OWN, thread=0, begin=20, end=80),
        Span(1, "gradscope writes SumBackward0", OWN, thread=0, begin=1_000, end=1_060),
        Span(2, "gradscope compiles sum", OWN, thread=0, begin=1_200, end=1_840),
        Span(3, "gradscope keeps sum", OWN, parent=2, thread=0, begin=1_500, end=1_600),
        Span(4, "gradscope compiles max", OWN, thread=1, begin=1_150, end=1_850),
        Span(5, "mine", Phase.USER, thread=0, begin=0, end=3_000),
        *more,
    )


def test_own_work_is_told_once_however_deep_it_lies() -> None:
    assert own_work(compiled()) == (
        OwnWork("gradscope loads sum", 0, 20, 80),
        OwnWork("gradscope writes SumBackward0", 0, 1_000, 1_060),
        OwnWork("gradscope compiles sum", 0, 1_200, 1_840),
        OwnWork("gradscope compiles max", 1, 1_150, 1_850),
    )


def test_nodes_operations_and_modules_take_only_their_own_time() -> None:
    trace = compiled()

    assert timing_by_op(trace, ProgramPart.FORWARD) == (
        Timing("sum", count=1, total=40, self=40, longest=40),
    )
    assert timing_by_node_name(trace) == (
        Timing("SumBackward0", count=1, total=160, self=160, longest=160),
        Timing("MulBackward0", count=1, total=30, self=30, longest=30),
    )
    assert backward_ns_of_modules(trace) == {0: 190}


def test_an_outer_node_gives_up_what_gradscope_did_in_an_inner_one_only_once() -> None:
    trace = trace_of(
        Node(0, "CheckpointBackward"),
        Node(1, "MulBackward0"),
        NodeBegin(t=0, thread=0, task=0, node=0),
        NodeBegin(t=10, thread=0, task=1, node=1),
        NodeEnd(t=40, thread=0, task=1, node=1),
        NodeEnd(t=100, thread=0, task=0, node=0),
        Span(0, "gradscope compiles mul", OWN, thread=0, begin=15, end=35),
    )

    assert timing_by_node_name(trace) == (
        Timing("CheckpointBackward", count=1, total=80, self=70, longest=70),
        Timing("MulBackward0", count=1, total=10, self=10, longest=10),
    )


def test_forward_and_backward_are_summed_without_it() -> None:
    facts = summary(compiled())

    assert (facts.forward_ns, facts.backward_ns, facts.own_ns) == (40, 300, 1_460)


def test_a_schedule_has_it_apart() -> None:
    trace = compiled()
    [task] = trace.rows(GraphTask)

    facts = schedule(trace, task)

    assert facts.own_work == own_work(trace)[1:3]
    assert (facts.own_ns, facts.ns) == (700, 300)
    assert [(run.self_ns, run.queued_ns) for run in facts.executions] == [(160, 40), (30, -1)]
