from __future__ import annotations

from gradscope.analysis.graph.took_part import NodesInBackwards, took_part, written_by
from gradscope.trace.schema import Capture, Edge, GraphTask, Node, NodeBegin, Row
from gradscope.trace.trace import Trace
from tests.shared.by_hand import trace_of


def a_write_through_a_view(*rows: Row) -> Trace:
    """`y = x * 2`, then `y[0].mul_(w)`, as it is recorded."""
    return trace_of(
        Node(0, "AccumulateGrad", -1),
        Node(1, "MulBackward0", 5),
        Node(2, "SelectBackward0", 6),
        Node(3, "MulBackward0", 7),
        Node(4, "CopySlices", 8),
        Node(5, "SumBackward0", 8, thread=1),
        Edge(1, 0, 0),
        Edge(2, 0, 1),
        Edge(3, 0, 2),
        Edge(3, 1, 0),
        Edge(4, 0, 1),
        Edge(4, 1, 0),
        *rows,
    )


def test_the_node_of_a_write_runs_inside_the_copy_slices_made_after_it() -> None:
    trace = a_write_through_a_view(
        GraphTask(0, roots=(4,)), NodeBegin(task=0, node=4), NodeBegin(task=0, node=1)
    )

    assert written_by(trace) == {4: 3}
    assert took_part(trace) == NodesInBackwards({1: (0,), 3: (0,), 4: (0,)}, frozenset(), {3: 4})


def test_a_copy_slices_that_did_not_run_ran_nothing() -> None:
    trace = a_write_through_a_view(GraphTask(0, roots=(1,)), NodeBegin(task=0, node=1))

    assert took_part(trace).inside == {}


def test_the_node_before_a_copy_slices_is_no_write_when_its_gradients_go_elsewhere() -> None:
    assert written_by(a_write_through_a_view(Edge(4, 2, 1))) == {}


def test_what_inputs_asked_for_took_part_without_running() -> None:
    trace = trace_of(
        Node(0, "A"),
        Node(1, "B"),
        GraphTask(7, roots=(0,), begin=1),
        GraphTask(9, roots=(0,), begin=2),
        NodeBegin(task=7, node=0),
        Capture(task=7, node=1),
        NodeBegin(task=9, node=0),
    )

    assert took_part(trace) == NodesInBackwards({0: (0, 1), 1: (0,)}, frozenset([1]), {})
    assert took_part(trace, [9]) == NodesInBackwards({0: (1,)}, frozenset(), {})


def test_without_events_of_the_engine_a_backward_has_all_that_its_roots_lead_to() -> None:
    trace = trace_of(Node(0, "A"), Node(1, "B"), Edge(0, 0, 1), Node(2, "C"), GraphTask(0, (0,)))

    assert took_part(trace).backwards == {0: (0,), 1: (0,)}
