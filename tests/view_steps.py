"""The steps of random programs of views: each takes the run, two values and a small number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Action = Callable[[Any, Any, Any, int], Any]


def dim(x: Any, n: int) -> int:
    return n % x.dim() if x.dim() else 0


def like(x: Any, y: Any) -> Any:
    """What is written into x: y where it fits, else its first element, of x's kind of number."""
    if x.is_complex() != y.is_complex():
        y = y.real if y.is_complex() else y * (1 + 0j)
    fits = y.dim() <= x.dim() and all(
        a in (1, b) for a, b in zip(reversed(y.shape), reversed(x.shape), strict=False)
    )
    return y if fits else y.reshape(-1)[0]


def halves(x: Any, n: int) -> list[int]:
    size = x.shape[dim(x, n)]
    return [size - size // 2, size // 2]


SINGLE: dict[str, Action] = {
    "select": lambda run, x, y, n: x.select(dim(x, n), n % 2),
    "index": lambda run, x, y, n: x[n % 2],
    "slice": lambda run, x, y, n: x[n % 2 :],
    "rows": lambda run, x, y, n: x[..., n % 2 : 2],
    "steps": lambda run, x, y, n: x[:: 1 + n % 2],
    "all": lambda run, x, y, n: x[...],
    "new dim": lambda run, x, y, n: x[None],
    "narrow": lambda run, x, y, n: x.narrow(dim(x, n), n % 2, 1),
    "t": lambda run, x, y, n: x.t(),
    "mT": lambda run, x, y, n: x.mT,
    "transpose": lambda run, x, y, n: x.transpose(0, -1),
    "permute": lambda run, x, y, n: x.permute(*reversed(range(x.dim()))),
    "movedim": lambda run, x, y, n: x.movedim(0, -1),
    "view": lambda run, x, y, n: x.view(-1),
    "view_as": lambda run, x, y, n: x.view_as(x),
    "reshape": lambda run, x, y, n: x.reshape(-1),
    "flatten": lambda run, x, y, n: x.flatten(),
    "unflatten": lambda run, x, y, n: x.unflatten(dim(x, n), (-1, 1)),
    "unsqueeze": lambda run, x, y, n: x.unsqueeze(dim(x, n)),
    "squeeze": lambda run, x, y, n: x.squeeze(),
    "squeeze dim": lambda run, x, y, n: x.squeeze(dim(x, n)),
    "expand": lambda run, x, y, n: x.expand(2, *x.shape),
    "expand_as": lambda run, x, y, n: x.expand_as(y),
    "diagonal": lambda run, x, y, n: x.diagonal(),
    "unfold": lambda run, x, y, n: x.unfold(dim(x, n), 2, 1 + n % 2),
    "as_strided": lambda run, x, y, n: x.as_strided((2,), (1 + n % 2,)),
    "as_strided twice": lambda run, x, y, n: x.as_strided((2, 2), (1, 1)),
    "detach": lambda run, x, y, n: x.detach(),
    "data": lambda run, x, y, n: x.data,
    "real view": lambda run, x, y, n: run.torch.view_as_real(x),
    "complex view": lambda run, x, y, n: run.torch.view_as_complex(x),
    "real": lambda run, x, y, n: x.real,
    "imag": lambda run, x, y, n: x.imag,
}
"""Views, or what may be one."""

SEVERAL: dict[str, Action] = {
    "unbind": lambda run, x, y, n: x.unbind(dim(x, n)),
    "split": lambda run, x, y, n: x.split(1 + n % 2, dim(x, n)),
    "split sizes": lambda run, x, y, n: x.split(halves(x, n), dim(x, n)),
    "chunk": lambda run, x, y, n: x.chunk(2, dim(x, n)),
    "tensor_split": lambda run, x, y, n: x.tensor_split(2, dim(x, n)),
    "iter": lambda run, x, y, n: list(x),
    "unsafe_split": lambda run, x, y, n: run.torch.unsafe_split(x, 1, dim(x, n)),
    "unsafe_chunk": lambda run, x, y, n: run.torch.unsafe_chunk(x, 2, dim(x, n)),
}
"""Several views at once."""

COMPUTED: dict[str, Action] = {
    "mul": lambda run, x, y, n: x * like(x, y),
    "add": lambda run, x, y, n: x + like(x, y),
    "double": lambda run, x, y, n: x * 2,
    "exp": lambda run, x, y, n: (x * 0.125).exp(),
    "tanh": lambda run, x, y, n: x.tanh(),
    "clone": lambda run, x, y, n: x.clone(),
    "contiguous": lambda run, x, y, n: x.contiguous(),
    "picked": lambda run, x, y, n: x[run.torch.tensor([0, 0])],
    "masked": lambda run, x, y, n: x[x.real > 0.5],
    "zeros": lambda run, x, y, n: run.torch.zeros_like(x),
    "cat": lambda run, x, y, n: run.torch.cat([x, x]),
}
"""New tensors."""


def put(x: Any, index: Any, value: Any) -> None:
    x[index] = value


def raised(x: Any, y: Any) -> None:
    x += like(x, y)


def part(x: Any, name: str, value: Any) -> None:
    setattr(x, name, value)


WRITES: dict[str, Action] = {
    "add_": lambda run, x, y, n: x.add_(like(x, y)) and None,
    "add_ number": lambda run, x, y, n: x.add_(n) is None or None,
    "mul_": lambda run, x, y, n: x.mul_(like(x, y)) is None or None,
    "mul_ number": lambda run, x, y, n: x.mul_(0.5 + n) is None or None,
    "div_": lambda run, x, y, n: x.div_(like(x, y) + 3) is None or None,
    "sub_": lambda run, x, y, n: x.sub_(like(x, y)) is None or None,
    "+=": lambda run, x, y, n: raised(x, y),
    "copy_": lambda run, x, y, n: x.copy_(like(x, y)) is None or None,
    "copy_ any": lambda run, x, y, n: x.copy_(y) is None or None,
    "fill_": lambda run, x, y, n: x.fill_(n) is None or None,
    "fill_ tensor": lambda run, x, y, n: x.fill_(like(x, y).reshape(-1)[0]) is None or None,
    "zero_": lambda run, x, y, n: x.zero_() is None or None,
    "tanh_": lambda run, x, y, n: x.tanh_() is None or None,
    "sin_": lambda run, x, y, n: x.sin_() is None or None,
    "neg_": lambda run, x, y, n: x.neg_() is None or None,
    "clamp_": lambda run, x, y, n: x.clamp_(0.25, 0.75) is None or None,
    "relu_": lambda run, x, y, n: x.relu_() is None or None,
    "pow_": lambda run, x, y, n: x.pow_(2) is None or None,
    "masked_fill_": lambda run, x, y, n: x.masked_fill_(x.detach().real > 0.5, n) is None or None,
    "masked_fill_ tensor": lambda run, x, y, n: x.masked_fill_(
        x.detach().real > 0.5, like(x, y).reshape(-1)[0]
    ) is None or None,
    "index_put_": lambda run, x, y, n: x.index_put_(
        (run.torch.tensor([0, 1]),), like(x, y).reshape(-1)[0], accumulate=bool(n % 2)
    ) is None or None,
    "index_fill_": lambda run, x, y, n: x.index_fill_(dim(x, n), run.torch.tensor([0]), n)
    is None or None,
    "[n] =": lambda run, x, y, n: put(x, n % 2, like(x[n % 2], y)),
    "[n] = number": lambda run, x, y, n: put(x, n % 2, 0.5 * n),
    "[a:] =": lambda run, x, y, n: put(x, slice(n % 2, None), like(x[n % 2 :], y)),
    "[::2] =": lambda run, x, y, n: put(x, slice(None, None, 2), like(x[::2], y)),
    "[...] =": lambda run, x, y, n: put(x, ..., like(x, y)),
    "[:] = number": lambda run, x, y, n: put(x, slice(None), n),
    "[..., n] =": lambda run, x, y, n: put(x, (..., n % 2), n),
    "[None] =": lambda run, x, y, n: put(x, None, like(x, y)),
    "[mask] =": lambda run, x, y, n: put(x, x.detach().real > 0.5, like(x, y).reshape(-1)[0]),
    "[list] =": lambda run, x, y, n: put(x, [0, 1], n),
    "[tensor] =": lambda run, x, y, n: put(x, run.torch.tensor([0, 0]), like(x[0], y)),
    "real =": lambda run, x, y, n: part(x, "real", like(x.real, y)),
    "imag =": lambda run, x, y, n: part(x, "imag", like(x.imag, y)),
}  # fmt: skip
"""Writes in place."""


def set_data(x: Any, y: Any) -> None:
    x.data = y.clone() if y.shape == x.shape else x.detach().clone()


STATES: dict[str, Action] = {
    "detach_": lambda run, x, y, n: x.detach_() is None or None,
    "requires_grad_": lambda run, x, y, n: x.requires_grad_(n < 4) is None or None,
    "requires_grad =": lambda run, x, y, n: part(x, "requires_grad", n < 4),
    "data =": lambda run, x, y, n: set_data(x, y),
    "t_": lambda run, x, y, n: x.t_() is None or None,
    "transpose_": lambda run, x, y, n: x.transpose_(0, -1) is None or None,
    "unsqueeze_": lambda run, x, y, n: x.unsqueeze_(dim(x, n)) is None or None,
    "squeeze_": lambda run, x, y, n: x.squeeze_() is None or None,
    "squeeze_ dim": lambda run, x, y, n: x.squeeze_(dim(x, n)) is None or None,
    "as_strided_": lambda run, x, y, n: x.as_strided_((2,), (1,)) is None or None,
    "look": lambda run, x, y, n: run.log.append(run.look(x)),
    "backward": lambda run, x, y, n: run.total(x).backward(retain_graph=n % 2 == 0),
    "grad": lambda run, x, y, n: run.log.append(
        [
            None if g is None else run.numbers(g)
            for g in run.torch.autograd.grad(
                run.total(x), [y], retain_graph=n % 2 == 0, allow_unused=True
            )
        ]
    ),
    "increment": lambda run, x, y, n: run.torch.autograd.graph.increment_version(x),
}
"""What changes or shows the tensor itself."""


def custom(run: Any, forward: Any, backward: Any) -> Any:
    body = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    return type("Mine", (run.torch.autograd.Function,), body)


def twice(grad: Any) -> Any:
    return None if grad is None else grad * 2


def returned(run: Any, x: Any, y: Any, n: int) -> Any:
    """A custom Function that returns its input as it is."""
    return custom(run, lambda ctx, x: x, lambda ctx, grad: twice(grad)).apply(x)


def viewed(run: Any, x: Any, y: Any, n: int) -> Any:
    """One that returns a view of its input."""
    return custom(run, lambda ctx, x: x.view_as(x), lambda ctx, grad: twice(grad)).apply(x)


def two_views(run: Any, x: Any, y: Any, n: int) -> Any:
    made = custom(run, lambda ctx, x: (x.view_as(x), x[...]), lambda ctx, a, b: twice(a) + b).apply(
        x
    )
    return list(made)


def dirty(run: Any, x: Any, y: Any, n: int) -> None:
    """One that writes to its input."""

    def forward(ctx: Any, x: Any) -> Any:
        ctx.mark_dirty(x)
        x.mul_(2)
        return x

    custom(run, forward, lambda ctx, grad: twice(grad)).apply(x)


def saving(run: Any, x: Any, y: Any, n: int) -> Any:
    """One that saves an input and its output."""

    def forward(ctx: Any, x: Any) -> Any:
        made = x * x
        ctx.save_for_backward(x, made)
        return made

    def backward(ctx: Any, grad: Any) -> Any:
        x, _ = ctx.saved_tensors
        return grad * 2 * x

    return custom(run, forward, backward).apply(x)


FUNCTIONS: dict[str, Action] = {
    "returned": returned,
    "viewed": viewed,
    "two views": two_views,
    "dirty": dirty,
    "saving": saving,
}
"""Custom Functions."""


def hook(run: Any, x: Any, y: Any, n: int) -> None:
    """A tensor hook that looks, or changes the gradient."""
    place = len(run.log)

    def seen(grad: Any) -> Any:
        run.log.append(("hook", place, run.numbers(grad)))
        return grad * 2 if n % 2 else None

    x.register_hook(seen)


HOOKED: dict[str, Action] = {
    "hook": hook,
    "retain_grad": lambda run, x, y, n: x.retain_grad(),
}
"""Listeners."""
