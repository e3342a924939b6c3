"""Errors about dual tensors: levels, what may carry a tangent, and what is not differentiable."""

from __future__ import annotations

from typing import Any

from gradscope.runtime.core.errors.declare import Case, engine_error


@engine_error("dual-level-nested", "Leave the open level first; `torch.func.jvp` may be nested.")
def nested() -> Case:
    """A dual level was entered while one is open.

    Example:
        with torch.autograd.forward_ad.dual_level():
            torch.autograd.forward_ad.enter_dual_level()
    """
    return Case(RuntimeError, "Nested forward mode AD is not supported at the moment")


@engine_error("dual-level-exit", "Leave levels with `with dual_level():`, or without naming one.")
def exit_of_another(level: int, current: int) -> Case:
    """A dual level was left that is not the one that is open.

    Example:
        with torch.autograd.forward_ad.dual_level():
            torch.autograd.forward_ad.exit_dual_level(level=1)
    """
    return Case(
        RuntimeError,
        "Trying to exit a forward AD level that was not the last one that was created. This is "
        "not supported.",
        known=(f"Level {level} was to be left; {'none' if current < 0 else current} is open.",),
    )


@engine_error("dual-level-none", "Enter a level first: `with forward_ad.dual_level():`.")
def nothing_to_exit() -> Case:
    """A level was left where none is open.

    Example:
        import torch.autograd.forward_ad as forward_ad

        forward_ad.exit_dual_level()
    """
    return Case(RuntimeError, "Dual level must be a positive number.")


@engine_error("dual-level-unknown", "Leave `level` out: there is one level.")
def no_such_level(function: str) -> Case:
    """A level was named that is not open.

    Example:
        import torch.autograd.forward_ad as forward_ad

        with forward_ad.dual_level():
            forward_ad.make_dual(torch.ones(3), torch.ones(3), level=3)
    """
    return Case(RuntimeError, f"Invalid level given to {function}")


@engine_error("dual-level-gone", "Finish with the tangents before the level is left.")
def level_gone() -> Case:
    """A tangent arose after its level was left, as in another thread."""
    return Case(
        RuntimeError,
        "Trying to access a forward AD level with an invalid index. This index was either not "
        "created or is already deleted.",
    )


@engine_error("dual-level-missing", "Make dual tensors inside `with forward_ad.dual_level():`.")
def no_level() -> Case:
    """A dual tensor was made outside of any dual level.

    Tangents live as long as the level they were made in.

    Example:
        x = torch.ones(3)
        torch.autograd.forward_ad.make_dual(x, x)
    """
    return Case(
        RuntimeError,
        "Trying to create a dual Tensor for forward AD but no level exists, make sure to "
        "enter_dual_level() first.",
    )


@engine_error("dual-of-dual", "Take `unpack_dual(x).primal` to give it another tangent.")
def already_dual(tensor: Any) -> Case:
    """A dual tensor was made of a tensor that has a tangent.

    Example:
        with torch.autograd.forward_ad.dual_level():
            t = torch.ones(3)
            x = torch.autograd.forward_ad.make_dual(t, t)  # named below
            torch.autograd.forward_ad.make_dual(x, t)
    """
    return Case(
        RuntimeError,
        "Making a dual Tensor based on a Tensor that already has a forward gradient at the same "
        "level 0 is not supported.",
        tensor=tensor,
    )


@engine_error("tangent-dual", "Take `unpack_dual(tangent).primal` as the tangent.")
def dual_tangent(tangent: Any) -> Case:
    """A tensor with a tangent was given as a tangent.

    Example:
        with torch.autograd.forward_ad.dual_level():
            t = torch.ones(3)
            x = torch.autograd.forward_ad.make_dual(t, t)  # named below
            torch.autograd.forward_ad.make_dual(t, x)
    """
    return Case(
        RuntimeError,
        "Setting a forward grad that itself has a forward gradient at the same level0 is not "
        "supported.",
        tensor=tangent,
    )


@engine_error("tangent-shape", "Give a tangent of the shape of its tensor: `expand` it.")
def shape(tensor: Any, tangent: Any) -> Case:
    """A tangent has another shape than its tensor.

    Example:
        with torch.autograd.forward_ad.dual_level():
            x = torch.ones(3)
            torch.autograd.forward_ad.make_dual(x, torch.ones(2))  # named below
    """
    return Case(
        RuntimeError,
        "Trying to set a forward gradient that has a different size than that of the original "
        f"Tensor, this is not supported. Tensor is of size {list(tensor._array.shape)} while the "
        f"given forward gradient is of size {list(tangent._array.shape)}.",
        tensor=tensor,
    )


@engine_error("tangent-dtype", "Bring it to a floating dtype first: `x.float()`.")
def kind(what: str, tensor: Any) -> Case:
    """A dual tensor was to be made of whole numbers, which have no derivative.

    Example:
        with torch.autograd.forward_ad.dual_level():
            torch.autograd.forward_ad.make_dual(torch.tensor([1, 2]), torch.ones(2))
    """
    return Case(
        ValueError,
        f"Expected {what} to be floating point or complex, but got: {tensor.dtype}",
        tensor=tensor,
    )


@engine_error("tangent-unknown", "Detach what goes into it, or compute it in other words.")
def unknown(name: str) -> Case:
    """An operation that nobody knows a derivative of was called on a dual tensor.

    Example:
        with torch.autograd.forward_ad.dual_level():
            x = torch.autograd.forward_ad.make_dual(torch.ones(3), torch.ones(3))
            torch.floor_divide(x, 2)
    """
    return Case(
        NotImplementedError,
        f"Trying to use forward AD with aten::{name} that does not support it.",
    )


@engine_error("tangent-not-implemented", "Use `detach()` to leave tangents out of it.")
def not_implemented(name: str) -> Case:
    """An operation that changes what a tensor is, not what it holds, met a tangent."""
    return Case(
        NotImplementedError,
        f"Trying to use forward AD with {name} that does not support it because it has not been "
        "implemented yet.",
    )


@engine_error("tangent-out", "Leave `out=` away, or detach what goes in and `out`.")
def out_with_tangent(name: str, out: Any) -> Case:
    """A function was to put a result with a tangent into `out=`, or one into a dual tensor.

    Example:
        with torch.autograd.forward_ad.dual_level():
            x = torch.autograd.forward_ad.make_dual(torch.ones(3), torch.ones(3))
            torch.add(x, x, out=torch.empty(3))
    """
    return Case(
        NotImplementedError,
        f"Trying to use forward AD with {name}_out that does not support it because it is an out= "
        "function",
        tensor=out,
    )
