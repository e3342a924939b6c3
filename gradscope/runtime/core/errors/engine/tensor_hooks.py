"""Errors about hooks: where they may be registered, and what they may return."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from gradscope.runtime.core.errors.declare import Case, engine_error


def named(hook: Any) -> str:
    """What a hook is called in PyTorch's texts."""
    with suppress(Exception):  # the user's `__getattr__` may raise anything
        return str(hook.__name__)
    return "<unknown>"


@engine_error("hook-without-grad", "Register it on a tensor that requires grad.")
def hook_without_grad(tensor: Any) -> Case:
    """A hook was registered on a tensor that does not require grad, so it never gets a gradient.

    Example:
        y = torch.ones(3) * 2  # named below
        y.register_hook(print)
    """
    return Case(
        RuntimeError,
        "cannot register a hook on a tensor that doesn't require gradient",
        tensor=tensor,
    )


@engine_error("retain-without-grad", "Call it on a tensor that requires grad.")
def retain_without_grad(tensor: Any) -> Case:
    """`retain_grad` was called on a tensor that never gets a gradient.

    Example:
        y = torch.ones(3) * 2  # named below
        y.retain_grad()
    """
    return Case(
        RuntimeError,
        "can't retain_grad on Tensor that has requires_grad=False",
        tensor=tensor,
    )


@engine_error(
    "accumulate-hook-non-leaf", "Use `register_hook`, or `retain_grad` with a tensor hook."
)
def accumulate_hook_non_leaf(tensor: Any) -> Case:
    """A post-accumulate-grad hook was registered on a tensor that is not a leaf.

    Example:
        y = torch.ones(3, requires_grad=True) * 2  # named below
        y.register_post_accumulate_grad_hook(print)
    """
    return Case(
        RuntimeError,
        "post accumulate grad hooks cannot be registered on non-leaf tensors",
        tensor=tensor,
    )


@engine_error("accumulate-hook-result", "Return None; the hook may change `.grad` directly.")
def accumulate_hook_result(hook: Any) -> Case:
    """A post-accumulate-grad hook returned a value, which nothing would use.

    Example:
        def halve(parameter):  # named below
            return parameter.grad / 2

        x = torch.ones(3, requires_grad=True)
        x.register_post_accumulate_grad_hook(halve)
        x.sum().backward()  # named below
    """
    return Case(RuntimeError, "Tensor post accumulate grad hooks should return None.", hook=hook)


@engine_error("hook-type", "Return a tensor, or None to leave the gradient unchanged.")
def hook_type(hook: Any, made: Any) -> Case:
    """A hook returned something that is not a tensor.

    Example:
        def norm(grad):  # named below
            return grad.norm().item()

        x = torch.ones(3, requires_grad=True)
        x.register_hook(norm)
        (x * x).sum().backward()  # named below
    """
    return Case(
        TypeError, f"expected Variable, but hook returned '{type(made).__name__}'", hook=hook
    )


@engine_error("hook-dtype", "Return a gradient of the same dtype: `.to(grad.dtype)`.")
def hook_dtype(hook: Any, before: str, after: str) -> Case:
    """A hook returned a gradient of another dtype.

    Example:
        def exact(grad):  # named below
            return grad.double()

        x = torch.ones(3, requires_grad=True)
        x.register_hook(exact)
        x.sum().backward()  # named below
    """
    return Case(
        RuntimeError,
        f"hook '{named(hook)}' has changed the type of value (was {before} got {after})",
        hook=hook,
    )


@engine_error("hook-size", "Return a gradient of the same shape.")
def hook_size(hook: Any, before: Any, after: Any) -> Case:
    """A hook returned a gradient of another shape.

    Example:
        def first(grad):  # named below
            return grad[:1]

        x = torch.ones(3, requires_grad=True)
        x.register_hook(first)
        x.sum().backward()  # named below
    """
    return Case(
        RuntimeError,
        f"hook '{named(hook)}' has changed the size of value",
        (f"The hook received shape {list(before)} and returned shape {list(after)}.",),
        hook=hook,
    )


@engine_error("hook-device", "Return the gradient on the same device: `.to(grad.device)`.")
def hook_device(hook: Any, before: Any, after: Any) -> Case:
    """A hook returned a gradient on another device.

    Example without PyTorch:
        def home(grad):  # named below
            return grad.cpu()

        x = torch.ones(3, device="sim:0", requires_grad=True)
        x.register_hook(home)
        x.sum().backward()  # named below
    """
    return Case(
        RuntimeError,
        f"hook '{named(hook)}' has changed the device of value (was {before} got {after})",
        hook=hook,
    )


@engine_error("hook-replaced-none", "Return None for each gradient that is None.")
def hook_replaced_none(hook: Any) -> Case:
    """A hook returned a gradient in place of None.

    Example:
        def double(grads):  # named below
            return tuple(torch.ones(3) for grad in grads)

        pair = torch.ones(2, 3, requires_grad=True).unbind()
        pair[0].grad_fn.register_prehook(double)
        pair[0].sum().backward()  # named below
    """
    return Case(RuntimeError, "can't replace a None gradient with a non-None value", hook=hook)


@engine_error("multi-hook-mode", 'Pass "all", or "any" to call the hook at the first gradient.')
def multi_hook_mode(mode: Any) -> Case:
    """`register_multi_grad_hook` was called with an unknown mode.

    Example:
        x = torch.ones(3, requires_grad=True)
        torch.autograd.graph.register_multi_grad_hook([x], print, mode="some")
    """
    return Case(ValueError, f"Expects mode to be one of ('all', 'any') but got {mode}")


@engine_error(
    "multi-hook-leaf", "Call `backward(inputs=…)`, or register the hook on results of operations."
)
def multi_hook_leaf() -> Case:
    """A multi-grad hook on a leaf ran during `grad`, which may not compute the leaf's gradient.

    Example:
        x = torch.ones(3, requires_grad=True)
        torch.autograd.graph.register_multi_grad_hook([x], print)
        torch.autograd.grad(x.sum(), x)  # named below
    """
    return Case(
        RuntimeError,
        "A leaf node was passed to _will_engine_execute_node but we are currently running "
        "autograd.grad(). This is currently not supported.",
    )


@engine_error("hook-tuple", "Return a tuple with one gradient for each gradient received, or None.")
def hook_tuple(hook: Any, made: Any) -> Case:
    """A hook on a node returned something that is not a tuple of gradients.

    Example:
        def double(grads):  # named below
            return grads[0] * 2

        y = torch.ones(3, requires_grad=True) * 3
        y.grad_fn.register_prehook(double)
        y.sum().backward()  # named below
    """
    return Case(TypeError, f"expected tuple, but hook returned '{type(made).__name__}'", hook=hook)


@engine_error(
    "hook-count", "Return one value for each gradient received: a new gradient, or None to keep it."
)
def hook_count(hook: Any, found: int, wanted: int) -> Case:
    """The number of gradients that a node's hook returned differs from what it received.

    Example:
        def first(grad_inputs, grad_outputs):  # named below
            return grad_inputs[:1]

        x = torch.ones(3, requires_grad=True)
        y = x * x
        y.grad_fn.register_hook(first)
        y.sum().backward()  # named below
    """
    return Case(
        RuntimeError,
        f"hook '{named(hook)}' has returned an incorrect number of values "
        f"(got {found}, but expected {wanted})",
        hook=hook,
    )
