"""Errors about `torch.autograd.functional`: arguments, returned values and dependencies."""

from __future__ import annotations

from typing import Any

from gradscope.runtime.core.errors.declare import Case, engine_error


@engine_error(
    "functional-strict",
    "Leave strict=True out to get zeros for independent inputs, or make the function depend on all "
    "of its inputs.",
)
def not_dependent(text: str) -> Case:
    """In strict mode, an output does not depend on an input that it is differentiated by.

    Mathematically the derivative is zero; strict mode reports it as a mistake.

    Example:
        def function(a, b):
            return a.sum()

        x = torch.ones(3)
        torch.autograd.functional.vjp(function, (x, x), strict=True)
    """
    return Case(RuntimeError, text)


@engine_error("functional-type", "Pass and return a tensor, or a tuple of tensors.")
def functional_type(what: str, caller: str, which: str, kind: Any) -> Case:
    """An input, an output or a vector is not a tensor.

    Example:
        torch.autograd.functional.jacobian(lambda x: x.tolist(), torch.ones(3))
    """
    return Case(
        TypeError,
        f"The {what} given to {caller} must be either a Tensor or a tuple of Tensors but "
        f"the {which} has type {kind}.",
    )


@engine_error(
    "functional-vector", "Pass one tensor of the same size for each output (vjp) or input (jvp)."
)
def functional_vector(text: str) -> Case:
    """The vector `v` does not fit the outputs (vjp) or the inputs (jvp).

    Example:
        torch.autograd.functional.vjp(lambda x: x * 2, torch.ones(3), v=torch.ones(2))
    """
    return Case(RuntimeError, text)


@engine_error("functional-one-number", "Let the function return one number: `.sum()`, `.mean()`.")
def functional_one_number(text: str) -> Case:
    """A second derivative needs a function that returns one number.

    Example:
        torch.autograd.functional.hessian(lambda x: x * x, torch.ones(3))
    """
    return Case(RuntimeError, text)


@engine_error("functional-options", "Use the other strategy, or leave one of the options out.")
def functional_options(kind: type[Exception], text: str) -> Case:
    """The options cannot be combined, or do not exist.

    Example:
        square = lambda x: x * x
        torch.autograd.functional.jacobian(square, torch.ones(3), strategy="sideways")
    """
    return Case(kind, text)


@engine_error(
    "backward-in-transform",
    "Compute the gradient inside with `torch.func.grad` or `torch.autograd.grad`.",
)
def backward_in_transform() -> Case:
    """A function that torch.func transforms called `backward`.

    Adding to `.grad` is a side effect that the transform cannot follow.

    Example:
        x = torch.ones(3, requires_grad=True)
        torch.func.vmap(lambda row: (row * x).sum().backward())(torch.ones(2, 3))
    """
    return Case(
        RuntimeError,
        "backward() called inside a functorch transform. This is not supported, please use "
        "functorch.grad or functorch.vjp instead or call backward() outside of functorch "
        "transforms.",
    )
