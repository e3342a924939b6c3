"""Where gradients meet: what is summed in place, and what a leaf takes over, as PyTorch does it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gradscope.record.recorder import record
from gradscope.trace import schema
from gradscope.trace.schema.events import Accumulation
from tests.runtime.both import runtime

Program = Callable[[Any, Any], Any]
Found = tuple[int, str]
"""How many sums at the leaf went into memory that was there, and how the leaf took the last."""

STOLEN, CLONED = "STOLEN", "CLONED"

PROGRAMS: dict[str, tuple[Program, Found]] = {
    "x*x": (lambda torch, x: (x * x).sum(), (1, STOLEN)),
    "x@x": (lambda torch, x: (x @ x).sum(), (1, STOLEN)),
    "x+x": (lambda torch, x: (x + x).exp().sum(), (0, STOLEN)),
    "x-x": (lambda torch, x: (x - x).exp().sum(), (1, STOLEN)),
    "x+tanh(x)": (lambda torch, x: (x + x.tanh()).exp().sum(), (1, STOLEN)),
    "x*x+x*x": (lambda torch, x: (x * x + x * x).exp().sum(), (3, STOLEN)),
    "x.t()*x": (lambda torch, x: (x.t() * x).sum(), (1, CLONED)),
    "t(), twice": (lambda torch, x: x.t().exp().sum() + x.t().tanh().sum(), (0, STOLEN)),
    "sum and sum": (lambda torch, x: x.sum() + x.sum(), (0, STOLEN)),
    "sum and more": (lambda torch, x: (x * x).sum() + x.sum(), (1, STOLEN)),
    "more and sum": (lambda torch, x: x.sum() + (x * x).sum(), (2, STOLEN)),
    "sum(0)": (lambda torch, x: x.sum(0).sum() + x.exp().sum(), (1, STOLEN)),
    "mean": (lambda torch, x: x.exp().sum() + x.mean(), (1, STOLEN)),
    "only sum": (lambda torch, x: x.sum(), (0, CLONED)),
    "only sum(0)": (lambda torch, x: x.sum(0).sum(), (0, CLONED)),
    "only mean": (lambda torch, x: x.mean(), (0, STOLEN)),
    "x+1": (lambda torch, x: (x + 1).sum(), (0, CLONED)),
    "addmm": (lambda torch, x: torch.addmm(x, x, x).exp().sum(), (2, STOLEN)),
    "number": (lambda torch, x: x.sum() * x.sum(), (0, STOLEN)),
}


def start(torch: Any) -> Any:
    return torch.tensor([[0.1, 0.2], [-0.3, 0.4]], requires_grad=True)


def of_ours(program: Program, hooks: Callable[[Any, Any], None] | None = None) -> Found:
    """What the trace says."""
    torch = runtime()
    with record() as recording:
        x = start(torch)
        if hooks is not None:
            hooks(torch, x)
        program(torch, x).backward()
    recording.stop()
    trace = recording.trace()
    names = {node.id: node.name for node in trace.rows(schema.Node)}
    sums = [e for e in trace.events(schema.BufferAdded) if names[e.node] == "AccumulateGrad"]
    (arrival,) = trace.events(schema.Accumulate)
    return sum(e.in_place for e in sums), Accumulation(arrival.how).name


def of_pytorch(program: Program, hooks: Callable[[Any, Any], None] | None = None) -> Found:
    """What can be seen of it: how often the gradient was written to, and whether `.grad` is it."""
    import torch

    x, found = start(torch), []
    if hooks is not None:
        hooks(torch, x)
    leaf = torch.autograd.graph.get_gradient_edge(x).node
    leaf.register_prehook(lambda grads: found.append((grads[0]._version, grads[0].data_ptr())))
    program(torch, x).backward()
    (writes, place), grad = found[0], x.grad
    assert grad is not None
    return writes, STOLEN if grad.data_ptr() == place else CLONED


def test_gradients_are_summed_in_place_where_nobody_else_holds_the_first() -> None:
    found = {name: of_ours(program) for name, (program, _) in PROGRAMS.items()}
    assert found == {name: expected for name, (_, expected) in PROGRAMS.items()}


@pytest.mark.torch
def test_pytorch_sums_the_same_gradients_in_place() -> None:
    found = {name: of_pytorch(program) for name, (program, _) in PROGRAMS.items()}
    assert found == {name: expected for name, (_, expected) in PROGRAMS.items()}


def hold(torch: Any, x: Any) -> None:
    """A hook on the leaf that keeps what it is given."""
    x.register_hook(KEPT.append)


KEPT: list[Any] = []


def pre_hook(torch: Any, x: Any) -> None:
    torch.autograd.graph.get_gradient_edge(x).node.register_prehook(lambda grads: None)


def post_hook(torch: Any, x: Any) -> None:
    node = torch.autograd.graph.get_gradient_edge(x).node
    node.register_hook(lambda made, given: None)
    x.leaf_node = node  # that it lives until backward


def tensor_hook(torch: Any, x: Any) -> None:
    x.register_hook(lambda grad: grad)


def after_hook(torch: Any, x: Any) -> None:
    x.register_post_accumulate_grad_hook(lambda leaf: None)


HOOKS = {
    pre_hook: STOLEN, post_hook: STOLEN, tensor_hook: STOLEN, after_hook: STOLEN, hold: CLONED,
}  # fmt: skip


def test_a_leaf_takes_a_gradient_over_that_hooks_have_only_seen() -> None:
    program, _ = PROGRAMS["x*x"]
    found = {hook.__name__: of_ours(program, hook) for hook in HOOKS}
    assert found == {hook.__name__: (1, how) for hook, how in HOOKS.items()}


@pytest.mark.torch
def test_pytorch_takes_over_what_hooks_have_only_seen() -> None:
    program, _ = PROGRAMS["x*x"]
    found = {hook.__name__: of_pytorch(program, hook) for hook in HOOKS}
    assert found == {hook.__name__: (1, how) for hook, how in HOOKS.items()}


def test_a_leaf_named_in_inputs_takes_its_gradient_over() -> None:
    torch = runtime()
    x, places = start(torch), []
    node = torch.autograd.graph.get_gradient_edge(x).node
    node.register_prehook(lambda grads: places.append(grads[0].data_ptr()))
    (x * 2).sum().backward(inputs=[x])
    assert places == [x.grad.data_ptr()]
