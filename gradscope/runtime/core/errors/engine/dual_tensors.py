"""Errors about dual tensors: levels, what can have a tangent, and what is not differentiable."""

from __future__ import annotations

from typing import Any

from gradscope.runtime.core.errors.declare import Case, engine_error


@engine_error("dual-level-nested", "Exit the open level first; `torch.func.jvp` may be nested.")
def nested() -> Case:
    """A dual level was entered while another is open.

    Example:
        with torch.autograd.forward_ad.dual_level():
            torch.autograd.forward_ad.enter_dual_level()
    """
    return Case(RuntimeError, "Nested forward mode AD is not supported at the moment")


@engine_error("dual-level-exit", "Use `with dual_level():`, or exit without `level=`.")
def exit_of_another(level: int, current: int) -> Case:
    """A dual level was exited that is not the open one.

    Example:
        with torch.autograd.forward_ad.dual_level():
            torch.autograd.forward_ad.exit_dual_level(level=1)
    """
    open_level = "none is open" if current < 0 else f"level {current} is open"
    return Case(
        RuntimeError,
        "Trying to exit a forward AD level that was not the last one that was created. This is "
        "not supported.",
        known=(f"Level {level} was to be exited, but {open_level}.",),
    )


@engine_error("dual-level-none", "Enter a level first: `with forward_ad.dual_level():`.")
def nothing_to_exit() -> Case:
    """A level was exited while none is open.

    Example:
        import torch.autograd.forward_ad as forward_ad

        forward_ad.exit_dual_level()
    """
    return Case(RuntimeError, "Dual level must be a positive number.")


@engine_error("dual-level-unknown", "Leave `level` out: there is only one level.")
def no_such_level(function: str) -> Case:
    """`level` is not the open level.

    Example:
        import torch.autograd.forward_ad as forward_ad

        with forward_ad.dual_level():
            forward_ad.make_dual(torch.ones(3), torch.ones(3), level=3)
    """
    return Case(RuntimeError, f"Invalid level given to {function}")


@engine_error("dual-level-gone", "Finish all use of tangents before the level ends.")
def level_gone() -> Case:
    """A tangent was computed after its level ended, for example in another thread."""
    return Case(
        RuntimeError,
        "Trying to access a forward AD level with an invalid index. This index was either not "
        "created or is already deleted.",
    )


@engine_error("dual-level-missing", "Create dual tensors inside `with forward_ad.dual_level():`.")
def no_level() -> Case:
    """A dual tensor was created outside of any dual level.

    A tangent exists until the level that it was created in ends.

    Example:
        x = torch.ones(3)
        torch.autograd.forward_ad.make_dual(x, x)
    """
    return Case(
        RuntimeError,
        "Trying to create a dual Tensor for forward AD but no level exists, make sure to "
        "enter_dual_level() first.",
    )


@engine_error("dual-of-dual", "Use `unpack_dual(x).primal` to set another tangent.")
def already_dual(tensor: Any) -> Case:
    """A dual tensor was created from a tensor that already has a tangent.

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


@engine_error("tangent-dual", "Pass `unpack_dual(tangent).primal` as the tangent.")
def dual_tangent(tangent: Any) -> Case:
    """A tensor that has a tangent was passed as a tangent.

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


@engine_error(
    "tangent-shape", "Pass a tangent that has the shape of its tensor, for example with `expand`."
)
def shape(tensor: Any, tangent: Any) -> Case:
    """A tangent has a different shape than its tensor.

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


@engine_error("tangent-dtype", "Convert it to a floating dtype first: `x.float()`.")
def kind(what: str, tensor: Any) -> Case:
    """A dual tensor was created from integers, which have no derivative.

    Example:
        with torch.autograd.forward_ad.dual_level():
            torch.autograd.forward_ad.make_dual(torch.tensor([1, 2]), torch.ones(2))
    """
    return Case(
        ValueError,
        f"Expected {what} to be floating point or complex, but got: {tensor.dtype}",
        tensor=tensor,
    )


@engine_error("tangent-unknown", "Detach the inputs, or use other operations.")
def unknown(name: str) -> Case:
    """An operation without a derivative was called on a dual tensor.

    Example:
        with torch.autograd.forward_ad.dual_level():
            x = torch.autograd.forward_ad.make_dual(torch.ones(3), torch.ones(3))
            torch.floor_divide(x, 2)
    """
    return Case(
        NotImplementedError,
        f"Trying to use forward AD with aten::{name} that does not support it.",
    )


@engine_error("tangent-not-implemented", "Use `detach()` to remove the tangent first.")
def not_implemented(name: str) -> Case:
    """An operation that replaces a tensor's memory or metadata was called with a tangent."""
    return Case(
        NotImplementedError,
        f"Trying to use forward AD with {name} that does not support it because it has not been "
        "implemented yet.",
    )


@engine_error("tangent-out", "Leave `out=` out, or detach the inputs and `out`.")
def out_with_tangent(name: str, out: Any) -> Case:
    """A function with `out=` was called with a dual tensor as an input or as `out`.

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
