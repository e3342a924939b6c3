"""Hooks: when they are called, in which order, with what, and what becomes of what they return."""

from __future__ import annotations

import warnings
import weakref
from typing import Any

from tests.faults.detectors.common import detector, leaf, ones, refused, same


@detector
def tensors_are_heard_once_and_in_order(torch: Any) -> None:
    x = leaf(torch, 1.0, 2.0)
    y = x * 2
    calls: list[str] = []
    y.register_hook(lambda g: calls.append("first"))
    y.register_hook(lambda g: (calls.append("second"), g * 10)[1])
    y.register_hook(lambda g: (calls.append("third"), g + 1)[1])
    y.retain_grad()
    x.register_hook(lambda g: calls.append("leaf"))
    x.register_post_accumulate_grad_hook(lambda t: calls.append(f"after {t.grad.tolist()}"))
    (y + y).sum().backward()
    assert calls == ["first", "second", "third", "leaf", "after [42.0, 42.0]"], calls
    same(y.grad, 21.0, 21.0)
    same(x.grad, 42.0, 42.0)


@detector
def nodes_are_heard(torch: Any) -> None:
    x = leaf(torch, 1.0, 2.0)
    y = x * 2
    calls: list[str] = []
    node = y.grad_fn
    node.register_prehook(lambda grads: (calls.append("pre"), (grads[0] * 3,))[1])
    node.register_prehook(lambda grads: (calls.append(f"pre {grads[0].tolist()}"), None)[1])
    node.register_hook(lambda made, taken: calls.append(f"{made[0].tolist()} {taken[0].tolist()}"))
    node.register_hook(lambda made, taken: (made[0] + 1, *made[1:]))
    y.register_hook(lambda grad: calls.append("tensor"))
    y.sum().backward()
    assert calls == ["tensor", "pre", "pre [3.0, 3.0]", "[6.0, 6.0] [3.0, 3.0]"], calls
    same(x.grad, 7.0, 7.0)


@detector
def hooks_of_every_output(torch: Any) -> None:
    """Each hears the gradient of its own tensor, in the order in which they were registered."""
    x = leaf(torch, 1.0, 2.0)
    first, second = x.unbind()
    heard: list[Any] = []
    second.register_hook(lambda grad: heard.append(("second", grad.item())))
    first.register_hook(lambda grad: heard.append(("first", grad.item())))
    (first * 3 + second * 5).backward()
    assert heard == [("second", 5.0), ("first", 3.0)], heard


@detector
def hooks_are_removed(torch: Any) -> None:
    x = leaf(torch, 1.0, 2.0)
    y = x * 2
    calls: list[str] = []
    y.register_hook(lambda grad: (calls.append("once"), handle.remove())[1])
    handle = y.register_hook(lambda grad: calls.append("twice"))
    y.sum().backward(retain_graph=True)
    y.sum().backward()
    assert calls == ["once", "twice", "once"], calls
    with x.register_hook(lambda grad: grad * 100):
        pass
    x.grad = None
    (x * 1).sum().backward()
    same(x.grad, 1.0, 1.0)


@detector
def what_hooks_may_not_return(torch: Any) -> None:
    x = leaf(torch, 1.0, 2.0)
    for returned, words, kind in (
        (3, "expected Variable", TypeError),
        (ones(torch, 3), "has changed the size", RuntimeError),
        (torch.ones(2), "has changed the type", RuntimeError),
    ):
        y = x * 2
        y.register_hook(lambda grad, returned=returned: returned)
        refused(words, y.sum().backward, kind)
    y = x * 2
    y.grad_fn.register_hook(lambda made, taken: (*made, None, None))
    refused("incorrect number of values", y.sum().backward)
    refused("doesn't require gradient", lambda: ones(torch, 2).register_hook(len))
    refused("non-leaf", lambda: y.register_post_accumulate_grad_hook(len))


@detector
def kept_gradients(torch: Any) -> None:
    """They add up, belong to nobody else, and keep no tensor alive."""
    x = leaf(torch, 1.0, 2.0)
    y = x * 2
    y.retain_grad()
    heard: list[Any] = []
    y.register_hook(heard.append)
    y.sum().backward(retain_graph=True)
    y.grad.mul_(10)
    same(heard[0], 1.0, 1.0)
    y.sum().backward(retain_graph=True)
    same(y.grad, 11.0, 11.0)
    z = y * 2
    z.retain_grad()
    held, total = weakref.ref(z), z.sum()
    del z
    assert held() is None
    total.backward()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        (x * 2).grad  # noqa: B018  (reading it is what warns)
    assert len(told) == 1


@detector
def several_tensors_are_waited_for(torch: Any) -> None:
    x, y = leaf(torch, 1.0), leaf(torch, 2.0)
    a, b, unused = x * 2, y * 3, x * 7
    heard: list[Any] = []
    register = torch.autograd.graph.register_multi_grad_hook

    def told(grads: Any) -> None:
        heard.append([None if grad is None else grad.item() for grad in grads])

    register([a, unused, b], told)
    register([a, b], lambda grad: heard.append(grad.item()), mode="any")
    (a * 5 + b * 11).sum().backward(retain_graph=True)
    assert heard == [11.0, [5.0, None, 11.0]], heard
    heard.clear()
    torch.autograd.grad((a * 5 + b * 11).sum(), [x])
    assert heard == [[5.0, None, None], 5.0], heard
