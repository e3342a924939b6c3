"""When nodes of PyTorch's go, and those that no backward came to."""

from __future__ import annotations

from typing import Any

import pytest

from gradscope.analysis.graph.unreached import IdleGraphs
from gradscope.trace.schema import NONE, Node, Saved, Storage, Tensor, Unreached
from tests.record.from_pytorch.watching import recorded

pytestmark = pytest.mark.torch


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch")


def test_a_node_is_gone_when_the_last_that_held_it_lets_go(torch: Any) -> None:
    def program() -> Any:
        x = torch.ones(3, requires_grad=True)
        kept, gone = (x * 2).sum(), (x * 3).exp().sum()
        kept.backward()
        gone.backward()
        del gone
        return kept

    _, trace = recorded(program)

    died = {(row.name, row.died != NONE) for row in trace.rows(Node)}
    assert died == {
        ("SumBackward0", False), ("MulBackward0", False), ("AccumulateGrad", False),
        ("SumBackward0", True), ("MulBackward0", True), ("ExpBackward0", True),
    }  # fmt: skip
    assert all(row.died == NONE or row.died >= row.t for row in trace.rows(Node))


def test_nodes_that_no_backward_came_to_are_told_when_they_have_gone(torch: Any) -> None:
    def program() -> None:
        x = torch.ones(3, requires_grad=True)
        for _ in range(2):
            (x * 2).sum().backward()
            looked_at = [(x * 3).exp() for _ in range(4)]
            del looked_at

    _, trace = recorded(program)

    rows = list(trace.rows(Unreached))
    assert [row.died != NONE for row in rows] == [True] * len(rows)
    assert all(row.t <= row.until <= row.died for row in rows)
    # of each product, its exponential and, as PyTorch makes one for each graph, what gathers for x
    assert sum(row.many for row in rows) == 18
    assert {row.name for row in trace.rows(Node)} == {
        "SumBackward0", "MulBackward0", "AccumulateGrad",
    }  # fmt: skip


def test_a_graph_that_is_there_at_the_end_has_its_nodes_though_no_backward_came(torch: Any) -> None:
    def program() -> Any:
        x = torch.ones(3, requires_grad=True)
        (x * 2).sum().backward()
        return [(x * 3).exp() for _ in range(3)]

    _, trace = recorded(program)

    alive = [row.name for row in trace.rows(Node) if row.died == NONE]
    assert alive.count("ExpBackward0") == alive.count("MulBackward0") == 3
    saved = [row for row in trace.rows(Saved) if row.slot == "result"]
    assert [row.released for row in saved] == [NONE] * 3
    assert list(trace.rows(Unreached)) == []
    assert int((~trace.once(IdleGraphs).reached).sum()) == 6


def test_what_comes_after_a_recording_is_not_told(torch: Any) -> None:
    def program() -> Any:
        x = torch.ones(3, requires_grad=True)
        return (x * 2).sum()

    kept, first = recorded(program)
    del kept
    _, second = recorded(lambda: None)

    assert [row.died for row in first.rows(Node)] == [NONE] * 3
    assert len(second.table(Node)) == len(second.table(Unreached)) == 0


def test_large_memory_is_one_storage_as_long_as_it_is_there(torch: Any) -> None:
    def program() -> Any:
        w = torch.ones(512, 512, requires_grad=True)
        kept = []
        for step in range(3):
            out = (w * w).exp()
            kept += [out.detach()] * (step == 1)
            out.sum().backward()
            del out
        small = torch.ones(8, requires_grad=True)
        small.exp().sum().backward()
        return w, kept

    kept, trace = recorded(program)

    del kept
    size = 4 * 512 * 512
    large = {row.id: row.freed != NONE for row in trace.rows(Storage) if row.bytes == size}
    (weight,) = {row.storage for row in trace.rows(Tensor) if row.name == "w"}
    results = [
        trace.table(Tensor).row(row.tensor).storage
        for row in trace.rows(Saved)
        if row.slot == "result" and row.bytes == size
    ]
    assert large[weight] is False
    assert [large[storage] for storage in results] == [True, False, True]
    assert {row.freed for row in trace.rows(Storage) if row.bytes == 32} == {NONE}
