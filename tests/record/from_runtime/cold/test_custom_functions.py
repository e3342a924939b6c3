"""Custom functions in a trace: their calls, nodes, edges, what they keep, and what runs inside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import gradscope.runtime as torch
from gradscope.record.recorder import record
from gradscope.trace.schema import NONE, Edge, Node, NodeBegin, Op, Saved, Version
from gradscope.trace.spec import check
from gradscope.trace.trace import Trace
from tests.runtime.both import function


def traced(program: Callable[[], object], level: str = "engine") -> Trace:
    with record(level=level) as recording:
        program()
    trace = recording.trace()
    assert check(trace) == []
    return trace


def leaf(*values: float) -> Any:
    return torch.tensor(list(values), requires_grad=True)


def squared(ctx: Any, x: Any) -> Any:
    ctx.save_for_backward(x)
    return x * x


def squared_back(ctx: Any, grad: Any) -> Any:
    return grad * 2 * ctx.saved_tensors[0]


def test_a_call_a_node_an_edge_and_what_it_keeps() -> None:
    mine = function(torch, squared, squared_back)
    trace = traced(lambda: mine.apply(leaf(3.0)).sum().backward())

    node = next(row for row in trace.rows(Node) if row.name == "MineBackward")
    op = trace.table(Op).row(node.op)
    inner = next(row for row in trace.rows(Op) if row.name == "mul")
    assert (op.name, op.node, op.outputs) == ("Mine", node.id, inner.outputs)
    assert trace.source(op.stack) == trace.source(node.stack)
    assert "mine.apply(leaf(3.0))" in trace.source(op.stack)
    edges = [row for row in trace.rows(Edge) if row.node == node.id]
    assert [trace.table(Node).row(edge.next).name for edge in edges] == ["AccumulateGrad"]
    saved = [row for row in trace.rows(Saved) if row.node == node.id]
    assert [(row.slot, row.tensor, row.released != NONE) for row in saved] == [
        ("saved_tensors[0]", op.inputs[0], True)
    ]


def test_what_runs_in_backward_has_its_own_line() -> None:
    mine = function(torch, squared, squared_back)
    trace = traced(lambda: mine.apply(leaf(3.0)).sum().backward())

    ran = [row for row in trace.rows(Op) if row.task != NONE]
    assert [row.name for row in ran] == ["mul", "mul"]
    assert {trace.source(row.stack) for row in ran} == {"return grad * 2 * ctx.saved_tensors[0]"}


def test_what_forward_did_is_there_without_history() -> None:
    mine = function(torch, squared, squared_back)
    trace = traced(lambda: mine.apply(leaf(3.0)))

    inner = next(row for row in trace.rows(Op) if row.name == "mul")
    assert inner.node == NONE


def in_place(ctx: Any, x: Any) -> Any:
    x.mul_(2)
    ctx.mark_dirty(x)
    return x


PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "a returned input": lambda x: function(torch, lambda ctx, x: x, lambda ctx, g: g).apply(x),
    "a returned view": lambda x: function(
        torch, lambda ctx, x: x[:1], lambda ctx, g: g.expand(2)
    ).apply(x * 1),
    "a dirty input": lambda x: function(torch, in_place, lambda ctx, g: g * 2).apply(x * 1),
    "a dirty view": lambda x: function(torch, in_place, lambda ctx, g: g * 2).apply((x * 1)[:1]),
    "several outputs": lambda x: sum(
        function(torch, lambda ctx, x: (x * 2, x * 3), lambda ctx, g, h: g + h).apply(x)
    ),
    "one output twice": lambda x: sum(
        function(torch, lambda ctx, x: (x, x), lambda ctx, g, h: g + h).apply(x)
    ),
    "an output of its own making": lambda x: function(
        torch, lambda ctx, x: torch.ones(2), lambda ctx, g: g
    ).apply(x),
    "no gradient": lambda x: function(torch, squared, lambda ctx, g: None).apply(x),
    "a function in a function": lambda x: function(
        torch,
        lambda ctx, x: function(torch, squared, squared_back).apply(x),
        lambda ctx, g: g,
    ).apply(x),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("level", ["graph", "engine", "values", "full"])
@pytest.mark.parametrize("create_graph", [False, True])
def test_every_kind_keeps_the_rules_of_a_trace(name: str, level: str, create_graph: bool) -> None:
    def program() -> None:
        PROGRAMS[name](leaf(1.0, 2.0)).sum().backward(create_graph=create_graph)

    trace = traced(program, level)
    assert any(row.name == "MineBackward" for row in trace.rows(Node))
    if level != "graph":
        ran = {event.node for event in trace.rows(NodeBegin)}
        copied = name == "a dirty view"  # its node runs inside CopySlices
        assert copied or {n.id for n in trace.rows(Node) if n.name == "MineBackward"} & ran


def test_a_write_inside_forward_is_a_version() -> None:
    mine = function(torch, in_place, lambda ctx, g: g * 2)
    trace = traced(lambda: mine.apply(leaf(1.0) * 1).sum().backward())

    writes = list(trace.rows(Version))
    assert trace.table(Op).row(writes[0].op).name == "mul_"
    assert [(row.new, row.op == NONE) for row in writes] == [(1, False), (2, True)]  # mark_dirty


def test_a_backward_inside_a_backward() -> None:
    def backward(ctx: Any, grad: Any) -> Any:
        with torch.enable_grad():
            x = leaf(1.0)
            (x * x).sum().backward()
        return grad * x.grad

    mine = function(torch, lambda ctx, x: x * 1, backward)
    trace = traced(lambda: mine.apply(leaf(3.0)).sum().backward(), "values")

    assert len({event.task for event in trace.rows(NodeBegin)}) == 2


def test_a_function_that_raises_leaves_a_whole_trace() -> None:
    def program() -> None:
        mine = function(torch, lambda ctx, x: x * 1, lambda ctx, grad: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            mine.apply(leaf(3.0)).sum().backward()

    traced(program, "values")
