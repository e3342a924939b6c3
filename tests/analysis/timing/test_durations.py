from __future__ import annotations

from gradscope.analysis.program.summary import summary
from gradscope.analysis.timing.durations import (
    Timing,
    backward_ns_of_modules,
    node_runs,
    timing_by_node_name,
    timing_by_op,
)
from gradscope.analysis.timing.phases import ProgramPart
from gradscope.trace.schema import NONE, Module, Node, NodeBegin, NodeEnd, Op, Phase
from tests.shared.by_hand import trace_of


def test_the_time_of_a_node_leaves_out_what_ran_inside_it() -> None:
    """A checkpoint runs a whole backward inside one node."""
    trace = trace_of(
        Node(0, "CheckpointBackward"),
        Node(1, "MulBackward0"),
        NodeBegin(t=0, thread=0, task=0, node=0),
        NodeBegin(t=10, thread=0, task=1, node=1),
        NodeEnd(t=40, thread=0, task=1, node=1),
        NodeEnd(t=100, thread=0, task=0, node=0),
    )

    assert timing_by_node_name(trace) == (
        Timing("CheckpointBackward", count=1, total=100, self=70, longest=70),
        Timing("MulBackward0", count=1, total=30, self=30, longest=30),
    )


def test_threads_do_not_take_time_from_each_other() -> None:
    trace = trace_of(
        Node(0, "A"),
        Node(1, "B"),
        NodeBegin(t=0, thread=0, task=0, node=0),
        NodeBegin(t=10, thread=1, task=0, node=1),
        NodeEnd(t=40, thread=1, task=0, node=1),
        NodeEnd(t=100, thread=0, task=0, node=0),
    )

    assert [timing.self for timing in timing_by_node_name(trace)] == [100, 30]


def test_a_node_that_never_ended_counts_without_time() -> None:
    trace = trace_of(Node(0, "A"), NodeBegin(t=5, task=0, node=0))

    assert timing_by_node_name(trace) == (Timing("A", count=1, total=0, self=0, longest=0),)
    assert node_runs(trace).ns.tolist() == [NONE]


def test_one_node_run_by_two_backwards_is_two_runs() -> None:
    trace = trace_of(
        Node(0, "A"),
        NodeBegin(t=0, task=0, node=0),
        NodeEnd(t=3, task=0, node=0),
        NodeBegin(t=10, task=1, node=0),
        NodeEnd(t=15, task=1, node=0, failed=True),
    )

    runs = node_runs(trace)

    assert runs.ns.tolist() == [3, 5]
    assert runs.position.tolist() == [1, 1]
    assert runs.failed.tolist() == [False, True]
    assert timing_by_node_name(trace) == (Timing("A", count=2, total=8, self=8, longest=5),)


def test_operations_inside_operations_count_once() -> None:
    trace = trace_of(Op(0, "linear", begin=0, end=10), Op(1, "addmm", begin=2, end=8))

    assert timing_by_op(trace, ProgramPart.FORWARD) == (
        Timing("addmm", count=1, total=6, self=6, longest=6),
        Timing("linear", count=1, total=10, self=4, longest=4),
    )


def test_operations_of_optimizers_and_of_backward_are_told_apart_from_forward() -> None:
    trace = trace_of(
        Op(0, "mul", begin=0, end=1),
        Op(1, "sub_", begin=2, end=4, phase=Phase.OPTIMIZER),
        Op(2, "neg", begin=5, end=9, phase=Phase.BACKWARD),
        Op(3, "exp", begin=10, end=20, task=0, phase=Phase.FORWARD),
        Op(4, "abs", begin=30, end=31, phase=Phase.FORWARD),
    )

    names = {part: {t.name: t.self for t in timing_by_op(trace, part)} for part in ProgramPart}
    assert names == {
        ProgramPart.FORWARD: {"mul": 1, "abs": 1},
        ProgramPart.OPTIMIZER: {"sub_": 2},
        ProgramPart.BACKWARD: {"neg": 4, "exp": 10},
    }
    facts = summary(trace)
    assert (facts.forward_ns, facts.optimizer_ns) == (2, 2)


def test_the_time_of_a_module_is_that_of_its_own_nodes() -> None:
    trace = trace_of(
        Module(0, "", "Net"),
        Module(1, "fc", "Linear", parent=0),
        Node(0, "A", module=1),
        Node(1, "B", module=0),
        NodeBegin(t=0, node=0),
        NodeEnd(t=5, node=0),
        NodeBegin(t=5, node=1),
        NodeEnd(t=7, node=1),
    )

    assert backward_ns_of_modules(trace) == {1: 5, 0: 2}


def test_an_empty_trace_took_no_time() -> None:
    trace = trace_of()

    assert timing_by_node_name(trace) == timing_by_op(trace, ProgramPart.FORWARD) == ()
    assert backward_ns_of_modules(trace) == {}
