"""Rules 21 to 23: hooks on tensors and nodes, what they change, and what they stay with."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

from gradscope.trace import schema
from gradscope.trace.schema.events import HookKind
from gradscope.trace.trace import Trace
from tests.runtime.both import function, leaf, raises
from tests.runtime.rules.conftest import Seen
from tests.runtime.rules.looks import errors, hooked, names_in, ran


@pytest.mark.rule(21)
def test_tensor_hooks_run_in_order_on_the_summed_gradient_and_may_replace_it(
    torch: Any, seen: Seen
) -> None:
    x = leaf(torch, 3.0)
    y = x * 2
    heard: list[Any] = []

    def scale(grad: Any) -> Any:
        heard.append(("scale", grad.tolist()))
        return grad * 10

    y.register_hook(scale)
    y.register_hook(lambda grad: heard.append(("look", grad.tolist())))
    x.register_hook(lambda grad: heard.append(("leaf", grad.tolist())))
    (y * 3 + y * 5).sum().backward()

    assert heard == [("scale", [8.0]), ("look", [80.0]), ("leaf", [160.0])]
    assert x.grad.tolist() == [160.0]

    def shows(trace: Trace) -> bool:
        """Each was called once, in order, after the gradients for its node had been summed."""
        known = names_in(trace)
        told = [
            (type(event).__name__, known[event.node])
            for event in trace.events(schema.BufferAdded, schema.HookBegin)
        ]
        return hooked(trace) == [
            ("TENSOR", True),
            ("TENSOR", False),
            ("TENSOR", False),
        ] and told == [
            ("BufferAdded", "MulBackward0"),
            ("HookBegin", "MulBackward0"),
            ("HookBegin", "MulBackward0"),
            ("HookBegin", "AccumulateGrad"),
        ]

    seen(shows)


@pytest.mark.rule(21)
def test_tensor_hooks_may_be_removed_while_they_run(torch: Any, seen: Seen) -> None:
    x = leaf(torch, 3.0)
    y = x * 2
    heard: list[str] = []
    handles: list[Any] = []

    def remove(grad: Any) -> None:
        heard.append("first")
        for handle in handles:
            handle.remove()

    def add(grad: Any) -> None:
        heard.append("second")
        y.register_hook(lambda grad: heard.append("late"))

    handles += [y.register_hook(hook) for hook in (remove, add)]
    y.sum().backward(retain_graph=True)
    assert heard == ["first", "second"]
    y.sum().backward()
    assert heard == ["first", "second", "late"]

    def shows(trace: Trace) -> bool:
        return [kind for kind, _ in hooked(trace)] == ["TENSOR"] * 3

    seen(shows)


@pytest.mark.rule(22)
def test_pre_hooks_chain_over_what_comes_in_and_post_hooks_get_both(torch: Any, seen: Seen) -> None:
    x, w = leaf(torch, 3.0), leaf(torch, 5.0)
    y = x * w
    heard: list[Any] = []

    def numbers(grads: Any) -> list[Any]:
        return [g if g is None else g.item() for g in grads]

    def scale(grads: Any) -> Any:
        heard.append(("pre", numbers(grads)))
        return (grads[0] * 10,)

    def drop(made: Any, given: Any) -> Any:
        heard.append(("post", numbers(made), numbers(given)))
        return (made[0] * 2, None)

    y.grad_fn.register_prehook(scale)
    y.grad_fn.register_prehook(lambda grads: heard.append(("pre", numbers(grads))))
    y.grad_fn.register_hook(lambda made, given: heard.append(("post", numbers(made))))
    y.grad_fn.register_hook(drop)
    y.grad_fn.register_hook(lambda made, given: heard.append(("post", numbers(made))))
    y.sum().backward()

    assert heard == [
        ("pre", [1.0]),
        ("pre", [10.0]),
        ("post", [50.0, 30.0]),
        ("post", [50.0, 30.0], [10.0]),
        ("post", [100.0, None]),
    ]
    assert (x.grad.tolist(), w.grad) == ([100.0], None)

    def shows(trace: Trace) -> bool:
        """Pre-hooks before the node's own run is over, post-hooks around nothing else."""
        return hooked(trace) == [
            ("PRE", True),
            ("PRE", False),
            ("POST", False),
            ("POST", True),
            ("POST", False),
        ] and {names_in(trace)[e.node] for e in trace.events(schema.HookBegin)} == {"MulBackward0"}

    seen(shows)


@pytest.mark.rule(22)
def test_hooks_hear_of_none_and_cannot_make_a_gradient_of_it(torch: Any, seen: Seen) -> None:
    nothing = function(torch, lambda ctx, x: x * 2, lambda ctx, grad: None)
    one = torch.ones(1, dtype=torch.float64)
    heard: list[Any] = []
    y = leaf(torch, 3.0) * 1
    y.register_hook(heard.append)
    y.grad_fn.register_prehook(heard.append)
    y.grad_fn.register_hook(lambda made, given: heard.append(given))
    nothing.apply(y).sum().backward()
    assert heard == [None, (None,), (None,)]

    text = "can't replace a None gradient with a non-None value"
    z = leaf(torch, 3.0) * 1
    z.grad_fn.register_prehook(lambda grads: (one,))
    assert raises(RuntimeError, nothing.apply(z).sum().backward) == text
    u = leaf(torch, 3.0) * 1
    u.grad_fn.register_prehook(lambda grads: grads[0])
    assert raises(TypeError, u.sum().backward) == "expected tuple, but hook returned 'Tensor'"

    def shows(trace: Trace) -> bool:
        wanted = [
            ("MulBackward0", "RuntimeError", text),
            ("MulBackward0", "TypeError", "expected tuple, but hook returned 'Tensor'"),
        ]
        undefined = [e.undefined for e in trace.events(schema.BufferMade)].count(True)
        return errors(trace) == wanted and undefined == 3

    seen(shows)


@pytest.mark.rule(23)
def test_retain_grad_follows_the_tensor_through_writes_and_a_hook_stays(
    torch: Any, seen: Seen
) -> None:
    x = leaf(torch, 3.0)
    y = x * 2
    heard: list[Any] = []
    y.retain_grad()
    y.register_hook(lambda grad: heard.append(("made", grad.tolist())))
    y.mul_(5)
    y.register_hook(lambda grad: heard.append(("written", grad.tolist())))
    y.add_(1)
    (y * 7).sum().backward()

    assert y.grad.tolist() == [7.0]
    assert heard == [("written", [7.0]), ("made", [35.0])]

    def shows(trace: Trace) -> bool:
        """The gradient is kept at the node of the last write; the hooks are at those before."""
        known = names_in(trace)
        told = [
            (HookKind(event.hook).name, known[event.node])
            for event in trace.events(schema.HookBegin)
        ]
        return (
            told
            == [
                ("RETAINS_GRAD", "AddBackward0"),
                ("TENSOR", "MulBackward0"),
                ("TENSOR", "MulBackward0"),
            ]
            and len(list(trace.rows(schema.Version))) == 2
        )

    seen(shows)


@pytest.mark.rule(23)
def test_neither_retain_grad_nor_a_hook_keeps_the_tensor_alive(torch: Any, seen: Seen) -> None:
    x = leaf(torch, 3.0)
    heard: list[Any] = []

    def total() -> tuple[Any, Any]:
        y = x * 2
        y.retain_grad()
        y.register_hook(lambda grad: heard.append(grad.tolist()))
        return y.sum(), weakref.ref(y)

    z, held = total()
    gc.collect()
    assert held() is None
    z.backward()
    assert (heard, x.grad.tolist()) == ([[1.0]], [2.0])

    def shows(trace: Trace) -> bool:
        """The hook is heard all the same; there is nobody left to keep a gradient for."""
        return ("TENSOR", False) in hooked(trace) and "MulBackward0" in ran(trace)

    seen(shows)
