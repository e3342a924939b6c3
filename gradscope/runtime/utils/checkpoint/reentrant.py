"""The reentrant checkpoint: a node that runs the region again, and a whole backward inside it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import Any

from gradscope.runtime.core.autograd.custom.function import Function
from gradscope.runtime.core.autograd.engine.backward import backward
from gradscope.runtime.core.autograd.engine.engine import engine
from gradscope.runtime.core.autograd.modes.grad_mode import enable_grad, no_grad
from gradscope.runtime.core.errors.engine.checkpoints import partial, without_gradient
from gradscope.runtime.core.tensors.tensor.tensor import Tensor
from gradscope.runtime.utils.checkpoint.autocast_state import AutocastState
from gradscope.runtime.utils.checkpoint.random_state import RandomState


def detach_variable(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Detached tensors that require grad where these do."""
    if not isinstance(inputs, tuple):
        raise RuntimeError(
            "Only tuple of tensors is supported. Got Unsupported input type: "
            f"{type(inputs).__name__}"
        )
    return tuple(
        value.detach().requires_grad_(value.requires_grad) if isinstance(value, Tensor) else value
        for value in inputs
    )


def check_backward_validity(inputs: Iterable[Any]) -> None:
    """Warn if none of these requires grad."""
    if not any(value.requires_grad for value in inputs if isinstance(value, Tensor)):
        warnings.warn(
            "None of the inputs have requires_grad=True. Gradients will be None",
            UserWarning,
            stacklevel=2,
        )


class CheckpointFunction(Function):
    """Runs a function without recording, and again with recording during backward."""

    @staticmethod
    def forward(
        ctx: Any, run_function: Callable[..., Any], preserve_rng_state: bool, *args: Any
    ) -> Any:
        check_backward_validity(args)
        ctx.run_function = run_function
        ctx.random_state = RandomState(preserve=preserve_rng_state)
        ctx.autocast_state = AutocastState()
        ctx.others = [None if isinstance(value, Tensor) else value for value in args]
        ctx.places = [i for i, value in enumerate(args) if isinstance(value, Tensor)]
        ctx.save_for_backward(*(args[i] for i in ctx.places))
        with no_grad():
            return run_function(*args)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        if not engine.is_checkpoint_valid():
            raise partial(ctx)
        inputs = list(ctx.others)
        for place, tensor in zip(ctx.places, ctx.saved_tensors, strict=True):
            inputs[place] = tensor
        leaves = detach_variable(tuple(inputs))
        with ctx.random_state.again(), ctx.autocast_state.again(), enable_grad():
            made = ctx.run_function(*leaves)
        outputs = made if isinstance(made, tuple | list) else (made,)
        roots = [
            (output, grad)
            for output, grad in zip(outputs, grads, strict=False)
            if isinstance(output, Tensor) and output.requires_grad
        ]
        if not roots:
            raise without_gradient(ctx)
        backward([output for output, _ in roots], [grad for _, grad in roots])
        return (None, None, *(v.grad if isinstance(v, Tensor) else None for v in leaves))
