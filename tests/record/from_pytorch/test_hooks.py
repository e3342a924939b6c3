"""Hooks of the program's on nodes, and callbacks: told in the order in which they are called."""

from __future__ import annotations

from typing import Any

import pytest

from gradscope.trace.schema import (
    Callback,
    Decrement,
    HookBegin,
    HookEnd,
    HookKind,
    Node,
    NodeBegin,
    NodeEnd,
)
from gradscope.trace.trace import Trace
from tests.record.from_pytorch.watching import watched

pytestmark = pytest.mark.torch


def hooks(trace: Trace) -> list[tuple[str, str]]:
    """The kind of each hook that was called, and the name of its node."""
    names = {row.id: row.name for row in trace.rows(Node)}
    return [(HookKind(row.hook).name, names[row.node]) for row in trace.events(HookBegin)]


def test_hooks_on_nodes_are_told_with_their_nodes_where_they_were_called() -> None:
    import torch

    def program() -> list[str]:
        called = []
        x = torch.ones(3, requires_grad=True)
        y = x.exp()
        z = y.sin()
        y.grad_fn.register_prehook(lambda grads: called.append("before exp"))
        y.grad_fn.register_hook(lambda results, grads: called.append("after exp"))
        y.register_hook(lambda grad: called.append("tensor"))
        z.grad_fn.register_hook(lambda results, grads: (results[0] * 2,))
        z.sum().backward()
        return [*called, str(x.grad)]

    unwatched = program()
    seen, trace = watched(program)

    assert seen == unwatched
    assert hooks(trace) == [
        ("POST", "SinBackward0"), ("TENSOR", "ExpBackward0"), ("PRE", "ExpBackward0"),
        ("POST", "ExpBackward0"),
    ]  # fmt: skip
    begins = {row.node: row.seq for row in trace.events(NodeBegin)}
    ends = {row.node: row.seq for row in trace.events(NodeEnd)}
    sent = {row.source: row.seq for row in trace.events(Decrement)}
    for row in trace.events(HookBegin):
        if row.hook == HookKind.POST:
            assert begins[row.node] < row.seq < ends[row.node] < sent[row.node]
        else:
            assert row.seq < begins[row.node]
    replaced = [(HookKind(row.hook).name, row.replaced) for row in trace.events(HookEnd)]
    assert replaced == [("POST", True), ("TENSOR", False), ("PRE", False), ("POST", False)]


def test_hooks_of_modules_are_called_as_often_and_in_the_same_order() -> None:
    import torch

    def program() -> list[Any]:
        called: list[Any] = []
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Tanh())
        for each in model:
            each.register_full_backward_hook(lambda m, grads, given: called.append(type(m)))
            each.register_full_backward_pre_hook(lambda m, grads: called.append(("pre", type(m))))
            each.register_forward_hook(lambda m, args, out: called.append(("forward", type(m))))
        x = torch.ones(1, 2, requires_grad=True)
        model(x).sum().backward()
        return [*called, x.grad.tolist()]

    unwatched = program()
    seen, trace = watched(program)

    assert seen == unwatched
    assert "POST" in {kind for kind, _ in hooks(trace)}


def test_a_hook_before_a_node_that_raises_is_where_the_error_is() -> None:
    import torch

    def program() -> str:
        x = torch.ones(3, requires_grad=True)
        y = x.exp()
        y.grad_fn.register_prehook(lambda grads: grads[1])
        with pytest.raises(IndexError) as raised:
            y.sum().backward()
        return str(raised.value)

    seen, trace = watched(program)

    assert seen == program()
    assert hooks(trace) == [("PRE", "ExpBackward0")]
    assert len(list(trace.events(HookEnd))) == 0


def test_callbacks_at_the_end_of_a_backward_are_told() -> None:
    import torch
    from torch.autograd import Variable

    def program() -> list[str]:
        called: list[str] = []

        def done() -> None:
            called.append("done")

        def hook(grad: Any) -> None:
            Variable._execution_engine.queue_callback(done)

        x = torch.ones(3, requires_grad=True)
        y = x.exp()
        y.register_hook(hook)
        y.sum().backward()
        return called

    seen, trace = watched(program)

    assert seen == ["done"]
    assert [row.name.rpartition(".")[2] for row in trace.events(Callback)] == ["done"]


def test_hooks_are_registered_as_ever_afterwards() -> None:
    import torch

    own = torch.autograd.Function._register_hook
    watched(lambda: torch.ones(1, requires_grad=True).exp().backward())

    assert torch.autograd.Function._register_hook is own
    assert "_register_hook" not in torch.autograd.Function.__dict__
