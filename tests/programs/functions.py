"""The custom Functions a program may call: each is odd in one way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Log = list[Any]


def shown(grads: Any) -> list[Any]:
    """Gradients as plain numbers."""
    return [g if g is None else g.detach().reshape(-1).tolist() for g in grads]


def define(
    torch: Any, forward: Any, backward: Any, setup_context: Any = None, **switches: Any
) -> Any:
    body = {"forward": staticmethod(forward), "backward": staticmethod(backward), **switches}
    if setup_context is not None:
        body["setup_context"] = staticmethod(setup_context)
    return type("Mine", (torch.autograd.Function,), body)


def one(forward: Any, backward: Any, **switches: Any) -> Callable[..., Any]:
    """A Function of one input."""
    return lambda torch, log, x, y: define(torch, forward, backward, **switches).apply(x)


def squared(ctx: Any, x: Any) -> Any:
    ctx.save_for_backward(x)
    return x * x


def squared_back(ctx: Any, grad: Any) -> Any:
    (x,) = ctx.saved_tensors
    return grad * 2 * x


def grown(ctx: Any, x: Any) -> Any:
    y = (x * 0.5).exp()
    ctx.save_for_backward(y)
    return y


def grown_back(ctx: Any, grad: Any) -> Any:
    return grad * ctx.saved_tensors[0] * 0.5


def remembered(ctx: Any, x: Any) -> Any:
    middle = x * 3
    ctx.save_for_backward(middle, None)
    return middle * x


def remembered_back(ctx: Any, grad: Any) -> Any:
    return grad * 2 * ctx.saved_tensors[0]


def two(torch: Any, log: Log, x: Any, y: Any, *, zeros: bool = True, marked: bool = False) -> Any:
    """Two outputs; the gradients that arrive are told."""

    def forward(ctx: Any, x: Any) -> Any:
        ctx.set_materialize_grads(zeros)
        first, second = x * 2, x * 3
        if marked:
            ctx.mark_non_differentiable(second)
        return first, second

    def backward(ctx: Any, first: Any, second: Any) -> Any:
        log.append(("two", *shown((first, second))))
        return first if second is None else second * 3 if first is None else first * 2 + second * 3

    return define(torch, forward, backward).apply(x)


def doubled_in_place(ctx: Any, x: Any) -> Any:
    x.mul_(2)
    ctx.mark_dirty(x)
    return x


def grown_in_place(ctx: Any, x: Any) -> Any:
    x.tanh_()
    ctx.mark_dirty(x)
    ctx.save_for_backward(x)
    return x


def grown_in_place_back(ctx: Any, grad: Any) -> Any:
    (y,) = ctx.saved_tensors
    return grad * (1 - y * y)


def windowed(ctx: Any, x: Any) -> Any:
    ctx.shape = x.shape
    return x.reshape(-1)[:1]


def windowed_back(ctx: Any, grad: Any) -> Any:
    return grad.sum().expand(ctx.shape)


def once(torch: Any, log: Log, x: Any, y: Any) -> Any:
    backward = torch.autograd.function.once_differentiable(squared_back)
    return define(torch, squared, backward).apply(x)


def fails(ctx: Any, grad: Any) -> Any:
    raise LookupError("a backward that fails")


def mixed(torch: Any, log: Log, x: Any, y: Any) -> Any:
    """A number between two tensors; what needs a gradient is told."""

    def forward(ctx: Any, x: Any, factor: float, y: Any) -> Any:
        ctx.save_for_backward(x, y)
        log.append(("needs", ctx.needs_input_grad))
        return x * factor + y.sum()

    def backward(ctx: Any, grad: Any) -> Any:
        y = ctx.saved_tensors[1]
        return grad * 3, None, grad.sum().expand(y.shape)

    return define(torch, forward, backward).apply(x, 3.0, y)


def set_up(torch: Any, log: Log, x: Any, y: Any) -> Any:
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        log.append(("set up", output.requires_grad, len(inputs)))
        ctx.save_for_backward(inputs[0], output)

    def backward(ctx: Any, grad: Any) -> Any:
        x, y = ctx.saved_tensors
        return grad * y * x.cos() / 2, None

    mine = define(torch, lambda x, k=0.5: (x.sin() * k).exp(), backward, setup_context)
    return mine.apply(x)


def nested(torch: Any, log: Log, x: Any, y: Any) -> Any:
    """A backward that goes backward."""

    def backward(ctx: Any, grad: Any) -> Any:
        (x,) = ctx.saved_tensors
        with torch.enable_grad():
            inner = x.detach().requires_grad_()
            inner.register_hook(lambda grad: log.append(("inside", *shown((grad,)))))
            (inner * inner).backward(grad.detach())
        return inner.grad

    return define(torch, squared, backward).apply(x)


def swapped(torch: Any, log: Log, x: Any, y: Any) -> Any:
    """Two inputs, returned as they are, the other way round."""
    mine = define(torch, lambda ctx, x, y: (y, x), lambda ctx, first, second: (second, first))
    return mine.apply(x, y)


def written_with_another(torch: Any, log: Log, x: Any, y: Any) -> Any:
    """One input is written to, with the other's sum."""

    def forward(ctx: Any, x: Any, y: Any) -> Any:
        x.add_(y.sum())
        ctx.mark_dirty(x)
        return x, y * 2

    def backward(ctx: Any, first: Any, second: Any) -> Any:
        return first, first.sum().expand(second.shape) + second * 2

    return define(torch, forward, backward).apply(x, y)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "scaled": one(lambda ctx, x: x * 3, lambda ctx, grad: grad * 3),
    "squared": one(squared, squared_back),
    "grown": one(grown, grown_back),
    "remembered": one(remembered, remembered_back),
    "read once": one(squared, squared_back, clear_saved_tensors_on_access=True),
    "boxed": one(squared, lambda ctx, grads: squared_back(ctx, grads.pop()), boxed_grads_call=True),
    "two": two,
    "two, lazily": lambda *given: two(*given, zeros=False),
    "one of two": lambda *given: two(*given, marked=True),
    "one of two, lazily": lambda *given: two(*given, zeros=False, marked=True),
    "as it is": one(lambda ctx, x: x, lambda ctx, grad: grad * 2),
    "swapped": swapped,
    "a view": one(lambda ctx, x: x.view_as(x), lambda ctx, grad: grad * 2),
    "a window": one(windowed, windowed_back),
    "the same twice": one(lambda ctx, x: (x * 2,) * 2, lambda ctx, first, second: second * 2),
    "dirty": one(doubled_in_place, lambda ctx, grad: grad * 2),
    "dirty and saved": one(grown_in_place, grown_in_place_back),
    "dirty and another": written_with_another,
    "once": once,
    "failing": one(lambda ctx, x: x * 2, fails),
    "silent": one(lambda ctx, x: x * 2, lambda ctx, grad: None),
    "too many": one(lambda ctx, x: x * 2, lambda ctx, grad: (grad, grad)),
    "too wide": one(lambda ctx, x: x * 2, lambda ctx, grad: grad.reshape(-1).repeat(5)),
    "wrong": one(lambda ctx, x: x * 2, lambda ctx, grad: 3.0),
    "whole": one(lambda ctx, x: x * 2, lambda ctx, grad: (grad * 8).long()),
    "mixed": mixed,
    "set up": set_up,
    "nested": nested,
    "constant": one(lambda ctx, x: x.detach() * 2, lambda ctx, grad: grad),
}
