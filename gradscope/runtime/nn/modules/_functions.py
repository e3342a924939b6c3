"""Custom functions that modules are built with."""

from __future__ import annotations

from typing import Any

from gradscope.runtime.autograd.function import Function


class BackwardHookFunction(Function):
    """Gives all tensors at one end of a module one node, for its backward hooks to sit on."""

    @staticmethod
    def forward(ctx: Any, *args: Any) -> Any:
        ctx.mark_non_differentiable(*[arg for arg in args if not arg.requires_grad])
        return args

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:  # noqa: ARG004  PyTorch's signature
        return grad_outputs
