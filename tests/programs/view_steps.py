"""The steps of random programs of views: each takes the run, two values and a small number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Action = Callable[[Any, Any, Any, int], Any]


def dim(x: Any, n: int) -> int:
    return n % x.dim() if x.dim() else 0


def memory(x: Any) -> int:
    return int(x.untyped_storage().data_ptr())


def dense(x: Any) -> bool:
    """Whether a tensor fills its memory without holes."""
    expected = 1
    if not x.numel():
        return True
    for step, size in sorted(zip(x.stride(), x.shape, strict=True)):
        if size > 1 and step != expected:
            return False
        expected *= size
    return True


def like(x: Any, y: Any) -> Any:
    """What is written into x: y where it fits, else its first element, of x's kind of number.

    Where y shares memory with x in a way that nobody refuses and nobody promises anything about,
    it is a copy.
    """
    if x.is_complex() != y.is_complex():
        y = y.real if y.is_complex() else y * (1 + 0j)
    apart = y is x or not x.numel() or not y.numel() or memory(x) != memory(y)
    odd = 1 in x.shape or x.numel() < 2 or x.shape != y.shape
    if not apart and (odd or not (dense(x) and dense(y))):
        y = y.clone()
    fits = y.dim() <= x.dim() and all(
        a in (1, b) for a, b in zip(reversed(y.shape), reversed(x.shape), strict=False)
    )
    return y if fits else y.reshape(-1)[0]


def halves(x: Any, n: int) -> list[int]:
    size = x.shape[dim(x, n)]
    return [size - size // 2, size // 2]


def strided(x: Any, size: Any, stride: Any) -> Any:
    """A window on the memory of x; how results of several inputs lie in it is nobody's promise."""
    return x.as_strided(size, stride) if x.numel() and (x.is_contiguous() or x.is_leaf) else None


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
    "unflatten": lambda run, x, y, n: x.unflatten(dim(x, n), (-1, 1)) if x.dim() else None,
    "unsqueeze": lambda run, x, y, n: x.unsqueeze(dim(x, n)),
    "squeeze": lambda run, x, y, n: x.squeeze(),
    "squeeze dim": lambda run, x, y, n: x.squeeze(dim(x, n)),
    "expand": lambda run, x, y, n: x.expand(2, *x.shape),
    "expand_as": lambda run, x, y, n: x.expand_as(y),
    "diagonal": lambda run, x, y, n: x.diagonal(),
    "unfold": lambda run, x, y, n: x.unfold(dim(x, n), 2, 1 + n % 2),
    "as_strided": lambda run, x, y, n: strided(x, (2,), (1 + n % 2,)),
    "as_strided twice": lambda run, x, y, n: strided(x, (2, 2), (1, 1)),
    "detach": lambda run, x, y, n: None if x.is_inference() else x.detach(),
    "data": lambda run, x, y, n: None if x.is_inference() else x.data,
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


def laid_out(run: Any, x: Any) -> Any:
    """Row-major: how PyTorch lays out what inputs of several layouts make is another matter."""
    return x.clone(memory_format=run.torch.contiguous_format)


COMPUTED: dict[str, Action] = {
    "mul": lambda run, x, y, n: laid_out(run, x * like(x, y)),
    "add": lambda run, x, y, n: laid_out(run, x + like(x, y)),
    "double": lambda run, x, y, n: x * 2,
    "exp": lambda run, x, y, n: (x * 0.125).exp(),
    "tanh": lambda run, x, y, n: x.tanh(),
    "clone": lambda run, x, y, n: None if x.is_inference() else x.clone(),
    "contiguous": lambda run, x, y, n: None if x.is_inference() else x.contiguous(),
    "picked": lambda run, x, y, n: laid_out(run, x[run.torch.tensor([0, 0])]),
    "masked": lambda run, x, y, n: x[x.real > 0.5],
    "zeros": lambda run, x, y, n: run.torch.zeros(tuple(x.shape), dtype=x.dtype),
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
    "add_": lambda run, x, y, n: x.add_(like(x, y)),
    "add_ number": lambda run, x, y, n: x.add_(n),
    "mul_": lambda run, x, y, n: x.mul_(like(x, y)),
    "mul_ number": lambda run, x, y, n: x.mul_(0.5 + n),
    "div_": lambda run, x, y, n: x.div_(like(x, y) + 3),
    "sub_": lambda run, x, y, n: x.sub_(like(x, y)),
    "+=": lambda run, x, y, n: raised(x, y),
    "copy_": lambda run, x, y, n: x.copy_(like(x, y)),
    "copy_ any": lambda run, x, y, n: x.copy_(y if memory(x) != memory(y) else y.clone()),
    "fill_": lambda run, x, y, n: x.fill_(n),
    "fill_ tensor": lambda run, x, y, n: x.fill_(like(x, y).reshape(-1)[0]),
    "zero_": lambda run, x, y, n: x.zero_(),
    "tanh_": lambda run, x, y, n: x.tanh_(),
    "sin_": lambda run, x, y, n: x.sin_(),
    "neg_": lambda run, x, y, n: x.neg_(),
    "clamp_": lambda run, x, y, n: x.clamp_(0.25, 0.75),
    "relu_": lambda run, x, y, n: x.relu_(),
    "pow_": lambda run, x, y, n: x.pow_(2),
    "masked_fill_": lambda run, x, y, n: x.masked_fill_(x.detach().real > 0.5, n),
    "masked_fill_ tensor": lambda run, x, y, n: x.masked_fill_(
        x.detach().real > 0.5, like(x, y).reshape(-1)[0]
    ),
    "index_put_": lambda run, x, y, n: x.index_put_(
        (run.torch.tensor([0, -1]),), like(x, y).reshape(-1)[0].clone(), accumulate=bool(n % 2)
    ),
    "index_fill_": lambda run, x, y, n: x.numel()
    and x.index_fill_(dim(x, n), run.torch.tensor([0]), n),
    "[n] =": lambda run, x, y, n: put(x, n % 2, like(x[n % 2], y)),
    "[n] = number": lambda run, x, y, n: put(x, n % 2, 0.5 * n),
    "[a:] =": lambda run, x, y, n: put(x, slice(n % 2, None), like(x[n % 2 :], y)),
    "[::2] =": lambda run, x, y, n: put(x, slice(None, None, 2), like(x[::2], y)),
    "[...] =": lambda run, x, y, n: put(x, ..., like(x, y)),
    "[:] = number": lambda run, x, y, n: put(x, slice(None), n),
    "[..., n] =": lambda run, x, y, n: put(x, (..., n % 2), n),
    "[None] =": lambda run, x, y, n: put(x, None, like(x[None], y)),
    "[mask] =": lambda run, x, y, n: put(x, x.detach().real > 0.5, like(x, y).reshape(-1)[0]),
    "[list] =": lambda run, x, y, n: put(x, [0, -1], n),
    "[tensor] =": lambda run, x, y, n: put(
        x, run.torch.tensor([0, 0]), like(x[0], y).reshape(-1)[0]
    ),
    "real =": lambda run, x, y, n: part(x, "real", like(x.real, y)),
    "imag =": lambda run, x, y, n: part(x, "imag", like(x.imag, y)),
}  # fmt: skip
"""Writes in place."""


def alone(run: Any, x: Any) -> bool:
    """Whether no other value lies in the memory of x."""
    return all(memory(v) != memory(x) for v in run.values if v is not x and v.numel())


def set_data(run: Any, x: Any, y: Any) -> None:
    """Give x other memory, where no view would be left on the memory before."""
    kinds = {x.is_inference(), y.is_inference(), run.torch.is_inference_mode_enabled()}
    if alone(run, x) and kinds == {False}:
        same = y.shape == x.shape and y.dtype == x.dtype
        x.data = y.clone() if same else x.detach().clone()


STATES: dict[str, Action] = {
    "detach_": lambda run, x, y, n: x.detach_(),
    "requires_grad_": lambda run, x, y, n: x.is_inference() or x.requires_grad_(n < 4),
    "requires_grad =": lambda run, x, y, n: x.is_inference() or part(x, "requires_grad", n < 4),
    "data =": lambda run, x, y, n: set_data(run, x, y),
    "t_": lambda run, x, y, n: x.t_(),
    "transpose_": lambda run, x, y, n: x.transpose_(0, -1),
    "unsqueeze_": lambda run, x, y, n: x.unsqueeze_(dim(x, n)),
    "squeeze_": lambda run, x, y, n: x.squeeze_(),
    "squeeze_ dim": lambda run, x, y, n: x.squeeze_(dim(x, n)),
    "as_strided_": lambda run, x, y, n: (
        alone(run, x) and x.numel() > 1 and x.as_strided_((2,), (1,))
    ),
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
    if x._base is not None and not isinstance(run.look(x)[-1], bool):
        return  # PyTorch crashes on some hooks of views whose base was written to

    def seen(grad: Any) -> Any:
        run.log.append(("hook", place, run.numbers(grad)))
        return grad * 2 if n % 2 else None

    x.register_hook(seen)


HOOKED: dict[str, Action] = {
    "hook": hook,
    "retain_grad": lambda run, x, y, n: x.retain_grad(),
}
"""Listeners."""
