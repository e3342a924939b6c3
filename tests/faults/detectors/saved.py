"""Saved values: what they unpack to, when they are stale or gone, and their hooks."""

from __future__ import annotations

import weakref
from typing import Any

from tests.faults.detectors.common import (
    close,
    detector,
    function,
    leaf,
    refused,
    same,
    without_collector,
)

STALE = "modified by an inplace operation"
FREED = "a second time"


@detector
def stale_values_are_refused(torch: Any) -> None:
    x = leaf(torch, 1.0, 2.0)
    y = x.exp()
    out = y.sum()
    y.add_(1)
    refused(STALE, out.backward)
    assert y._version == 1
    other = torch.ones(2, dtype=torch.float64)
    product = (x * other).sum()
    other.add_(1)
    refused(STALE, product.backward)
    view = other[:1]
    product = (x[:1] * view).sum()
    with torch.no_grad():
        other.mul_(1)
    refused(STALE, product.backward)


@detector
def fresh_values_are_taken(torch: Any) -> None:
    """What was written to before it was saved, and what nobody reads, is no matter."""
    x = leaf(torch, 1.0, 2.0)
    other = torch.ones(2, dtype=torch.float64)
    other.add_(1)
    (x * other).sum().backward()
    same(x.grad, 2.0, 2.0)
    y = x * 2
    total = (y + 1).sum()
    y.mul_(5)
    total.backward()
    same(x.grad, 4.0, 4.0)


@detector
def freed_graphs_are_refused(torch: Any) -> None:
    x = leaf(torch, 1.0, 2.0)
    out = x.exp().sum()
    out.backward()
    refused(FREED, out.backward)
    refused(FREED, lambda: (x.exp() * 2).sum().backward() or out.backward())
    kept = x.exp().sum()
    kept.backward(retain_graph=True)
    kept.backward()
    refused(FREED, kept.backward)
    with_graph = x.exp().sum()
    torch.autograd.grad(with_graph, x, create_graph=True)
    with_graph.backward()
    adding = x + 1
    for _ in range(2):
        adding.sum().backward()
    adding.register_hook(lambda grad: None)
    for _ in range(2):
        adding.sum().backward()
    heard = x.exp()
    heard.register_hook(lambda grad: None)
    heard.sum().backward()
    refused(FREED, heard.sum().backward)


@detector
def only_what_ran_is_freed(torch: Any) -> None:
    x = leaf(torch, 1.0, 2.0)
    shared = x.exp()
    torch.autograd.grad(shared.sum(), [shared])
    shared.sum().backward()
    close(x.grad, shared.tolist())


@detector
def inputs_come_back_as_they_were(torch: Any) -> None:
    x, y = leaf(torch, 1.0, 2.0), leaf(torch, 3.0, 4.0)
    node = (x * y).grad_fn
    assert node._saved_self is x
    assert node._saved_other is y
    made = x.exp()
    kept = made.grad_fn._saved_result
    assert kept is not made
    assert kept.grad_fn is made.grad_fn
    assert kept._version == made._version


class Token:
    """Dies with the node it was left at."""


@detector
def graphs_die_with_their_last_tensor(torch: Any) -> None:
    x = leaf(torch, 1.0, 2.0)

    def mine() -> Any:
        def forward(ctx: Any, x: Any) -> Any:
            made = x.exp()
            ctx.save_for_backward(x, made)
            return made

        return function(torch, forward, lambda ctx, grad: grad * ctx.saved_tensors[1]).apply(x * 1)

    def listened() -> Any:
        made = x * 2
        made.retain_grad()
        made.register_hook(lambda grad: grad * 1)
        return made

    with without_collector():
        for make in (lambda: x.exp().tanh(), lambda: (x * 2).mul_(x), mine, listened):
            made = make()
            token = made.grad_fn.metadata["token"] = Token()
            graph, tensor = weakref.ref(token), weakref.ref(made)
            made.sum().backward(retain_graph=True)
            del made, token
            assert tensor() is None
            assert graph() is None


@detector
def packed_once_by_the_innermost_hooks(torch: Any) -> None:
    heard: list[str] = []

    def hooks(name: str) -> Any:
        def pack(tensor: Any) -> Any:
            heard.append(f"{name} packs")
            return tensor.clone()

        def unpack(tensor: Any) -> Any:
            heard.append(f"{name} unpacks")
            return tensor

        return torch.autograd.graph.saved_tensors_hooks(pack, unpack)

    x = leaf(torch, 1.0, 2.0)
    with hooks("outer"):
        with hooks("inner"):
            y = x.exp()
        z = y.sin()
    z.sum().backward()
    assert heard == ["inner packs", "outer packs", "outer unpacks", "inner unpacks"], heard
    close(x.grad, (y.cos() * y).tolist())
    heard.clear()
    (x * x).sum().backward()
    assert heard == []


@detector
def unpacked_values_have_their_history(torch: Any) -> None:
    x = leaf(torch, 1.0, 2.0)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t):
        for make, wanted in (
            (lambda: (x * 1) ** 3, [6.0, 12.0]),
            (lambda: x**3, [6.0, 12.0]),
            ((x * 1).exp, x.exp().tolist()),
        ):
            (first,) = torch.autograd.grad(make().sum(), x, create_graph=True)
            (second,) = torch.autograd.grad(first.sum(), x)
            close(second, wanted)


@detector
def what_hooks_may_not_do(torch: Any) -> None:
    x = leaf(torch, 1.0, 2.0)
    hooks = torch.autograd.graph.saved_tensors_hooks
    with hooks(lambda tensor: 3, lambda packed: packed):
        out = x.exp().sum()
    refused("expected to be a Tensor", out.backward, TypeError)
    with hooks(lambda tensor: tensor.mul_(2), lambda packed: packed):
        refused("modifying its input", x.exp)
    raw = (x * x).grad_fn._raw_saved_self
    raw.register_hooks(lambda tensor: tensor, lambda packed: packed)
    refused("already been set", lambda: raw.register_hooks(lambda t: t, lambda t: t))


@detector
def hooks_end_with_their_block(torch: Any) -> None:
    x = leaf(torch, 1.0, 2.0)
    graph = torch.autograd.graph
    heard: list[Any] = []
    for error in (ValueError, KeyError):
        try:
            with graph.saved_tensors_hooks(lambda t: heard.append(t) or t, lambda t: t):
                raise error
        except error:
            pass
        try:
            with graph.disable_saved_tensors_hooks("not here"):
                refused("not here", graph.saved_tensors_hooks(len, len).__enter__)
                raise error
        except error:
            pass
    with graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        x.exp()
    x.exp()
    assert heard == []


@detector
def saved_values_may_be_written_to_where_it_is_allowed(torch: Any) -> None:
    x = leaf(torch, 1.0, 2.0)
    with torch.autograd.graph.allow_mutation_on_saved_tensors():
        y = x * 1
        out = (y * y).sum()
        y.mul_(5)
        out.backward()
    same(x.grad, 2.0, 4.0)
