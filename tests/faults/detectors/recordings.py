"""Recordings: they keep the rules of every trace, and tell the graph that a program sees."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gradscope.runtime as torch
from gradscope.record.recorder import record
from gradscope.trace import schema
from gradscope.trace.spec import check
from gradscope.trace.trace import Trace
from tests.faults.detectors.common import leaf


def traced() -> Trace:
    """A recording with a bit of everything in it."""
    x, weight = leaf(torch, 0.5, -0.25, 1.0), leaf(torch, *([[1.0, 2.0, 3.0]] * 3))
    with record() as recording:
        hidden = x
        for _ in range(3):
            hidden = torch.tanh(weight @ hidden) + hidden
        hidden.register_hook(lambda g: g * 1.5)
        base = hidden * 2
        base[0].mul_(3)
        out = (base * base.detach()).sum()
        out.backward(retain_graph=True)
        torch.autograd.grad(out, [weight])
        (first,) = torch.autograd.grad((x * x * x).sum(), [x], create_graph=True)
        first.sum().backward()
    return recording.trace()


def traces_keep_their_rules() -> None:
    violations = check(traced())
    assert violations == [], violations[0]


def traces_tell_the_graph() -> None:
    """The trace's nodes, edges and saved tensors are those that `next_functions` shows."""
    x, y = leaf(torch, 1.0, 2.0), leaf(torch, 3.0, 4.0)
    with record() as recording:
        a = x * y
        b = a.exp() - y
        c = b.reshape(2, 1) + a
        out = (c * c).sum()
        shape = graph_of(out.grad_fn)
        out.backward()
    trace = recording.trace()
    edges: dict[int, list[tuple[int, int, int]]] = {}
    for edge in trace.rows(schema.Edge):
        edges.setdefault(edge.node, []).append((edge.index, edge.next, edge.input_nr))
    names = {node.id: node.name for node in trace.rows(schema.Node)}
    (task,) = trace.rows(schema.GraphTask)
    assert task.end >= task.begin, "the backward has ended"
    numbers, order = {task.roots[0]: 0}, [task.roots[0]]
    found = []
    for node in order:
        row = []
        for _, following, nr in sorted(edges.get(node, [])):
            if following >= 0 and following not in numbers:
                numbers[following] = len(order)
                order.append(following)
            row.append((numbers[following] if following >= 0 else None, nr))
        found.append((names[node], tuple(row)))
    assert found == shape, (found, shape)
    saved = [(names[s.node], s.slot) for s in trace.rows(schema.Saved)]
    assert saved.count(("MulBackward0", "self")) == 2, saved
    assert saved.count(("ExpBackward0", "result")) == 1, saved
    assert all(s.released >= 0 for s in trace.rows(schema.Saved))
    accumulated = sorted(e.how for e in trace.events(schema.Accumulate))
    assert accumulated == [schema.Accumulation.STOLEN] * 2, accumulated


def graph_of(root: Any) -> list[Any]:
    numbers, order = {root: 0}, [root]
    found = []
    for node in order:
        row = []
        for following, nr in node.next_functions:
            if following is not None and following not in numbers:
                numbers[following] = len(order)
                order.append(following)
            row.append((None if following is None else numbers[following], nr))
        found.append((type(node).__name__, tuple(row)))
    return found


RECORDINGS: dict[str, Callable[[], None]] = {
    "traces keep their rules": traces_keep_their_rules,
    "traces tell the graph": traces_tell_the_graph,
}
