from __future__ import annotations

import pytest

from gradscope.analysis.graph.selection import Selected, Selection, select
from gradscope.errors import UnknownNameError
from gradscope.trace.schema import Edge, GraphTask, Node, Step
from tests.shared.by_hand import trace_of
from tests.shared.example_traces import mean_of_squares, shared_weight, two_layers


def test_everything_is_chosen_from_the_root_to_the_leaves() -> None:
    assert select(mean_of_squares(), Selection()) == Selected((4, 3, 2, 0, 1), (), None)


def test_a_backward_chooses_what_its_roots_reach() -> None:
    trace = trace_of(
        Node(0, "A"),
        Node(1, "B"),
        Node(2, "C"),
        Edge(0, 0, 1),
        Edge(2, 0, 1),
        GraphTask(10, roots=(0,), begin=5),
        GraphTask(11, roots=(2,), begin=6),
    )

    assert select(trace, Selection(backward=1)) == Selected((2, 1), (), frozenset({11}))


def test_a_step_chooses_its_nodes_and_the_leaves_they_reach() -> None:
    trace = two_layers(steps=2)
    nodes = {node.id: node for node in trace.rows(Node)}

    chosen = select(trace, Selection(step=1))

    assert {nodes[id].step for id in chosen.nodes if nodes[id].name != "AccumulateGrad"} == {1}
    assert sum(nodes[id].name == "AccumulateGrad" for id in chosen.nodes) == 4
    assert chosen.tasks == frozenset({1})


def test_around_chooses_what_is_so_many_hops_away_nearest_first() -> None:
    trace = mean_of_squares()

    assert select(trace, Selection(around="MulBackward0#1", hops=0)).nodes == (2,)
    assert select(trace, Selection(around="MulBackward0#1", hops=1)).nodes == (2, 0, 3)
    assert select(trace, Selection(around="MulBackward0#1", hops=2)).nodes == (2, 0, 3, 1, 4)


def test_a_shared_leaf_does_not_pull_all_its_uses_in() -> None:
    """A weight used a hundred times is one node with a hundred edges."""
    trace = shared_weight(100)

    near = select(trace, Selection(around="MvBackward0#50", hops=2))
    of_leaf = select(trace, Selection(around="w", hops=1))

    assert len(near.nodes) == 6
    assert len(of_leaf.nodes) == 101


@pytest.mark.parametrize(
    ("selection", "message"),
    [
        (Selection(step=7), "no step 7: its steps are 0 to 1"),
        (Selection(backward=7), "no backward 7: its backwards are 0 to 1"),
        (Selection(step=1, around="MeanBackward0#1"), "not among the nodes selected by --step"),
    ],
)
def test_what_is_not_in_the_trace_is_named_with_what_is(selection: Selection, message: str) -> None:
    with pytest.raises(UnknownNameError, match=message):
        select(two_layers(steps=2), selection)


def test_a_trace_without_steps_or_tasks_says_so() -> None:
    trace = trace_of(Node(0, "A"))

    with pytest.raises(UnknownNameError, match="it has no steps"):
        select(trace, Selection(step=0))
    with pytest.raises(UnknownNameError, match="it has none"):
        select(trace, Selection(backward=0))


def test_a_step_is_named_by_its_number_not_its_id() -> None:
    trace = trace_of(
        Step(0, number=10), Step(1, number=11), Node(0, "A", step=0), Node(1, "B", step=1)
    )

    assert select(trace, Selection(step=11)).nodes == (1,)


def test_a_chain_of_a_hundred_thousand_nodes_needs_no_recursion() -> None:
    count = 100_000
    trace = trace_of(
        *(Node(id, "Mul") for id in range(count)),
        *(Edge(id, 0, id + 1) for id in range(count - 1)),
        GraphTask(0, roots=(0,)),
    )

    assert select(trace, Selection(backward=0)).nodes == tuple(range(count))


def test_a_cycle_which_no_engine_makes_is_walked_once() -> None:
    trace = trace_of(Node(0, "A"), Node(1, "B"), Edge(0, 0, 1), Edge(1, 0, 0))

    assert select(trace, Selection()).nodes == (0, 1)
