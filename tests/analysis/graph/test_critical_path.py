from __future__ import annotations

from gradscope.analysis.graph.critical_path import critical_path
from gradscope.trace.schema import Edge, Node
from gradscope.trace.trace import Trace
from tests.shared.by_hand import trace_of


def diamond() -> Trace:
    """From 4 over 3 or 2 to 1, and on to 0."""
    ways = ((4, 3), (4, 2), (3, 1), (2, 1), (1, 0))
    return trace_of(*(Node(id, "N") for id in range(5)), *(Edge(a, 0, b) for a, b in ways))


def test_the_slower_way_is_the_critical_one() -> None:
    assert critical_path(diamond(), range(5), {4: 1, 3: 5, 2: 9, 1: 1, 0: 1}) == [4, 2, 1, 0]
    assert critical_path(diamond(), range(5), {4: 1, 3: 9, 2: 5, 1: 1, 0: 1}) == [4, 3, 1, 0]


def test_it_may_begin_and_end_anywhere_among_the_nodes_asked_for() -> None:
    assert critical_path(diamond(), [3, 2, 1], {3: 1, 2: 2}) == [2, 1]
    assert critical_path(diamond(), [], {}) == []


def test_nodes_on_a_cycle_are_on_no_path() -> None:
    trace = trace_of(
        *(Node(id, "N") for id in range(3)), Edge(0, 0, 1), Edge(1, 0, 0), Edge(2, 0, 1)
    )

    assert critical_path(trace, range(3), {0: 5, 1: 5, 2: 1}) == [2]
