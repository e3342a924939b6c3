"""Custom autograd functions that modules use."""

from __future__ import annotations

from typing import Any

from gradscope.runtime.core.autograd.custom.function import Function
from gradscope.runtime.core.ops.shape.joining import stack


class BackwardHookFunction(Function):
    """Identity with one node for all tensors at one end of a module: backward hooks sit on it."""

    @staticmethod
    def forward(ctx: Any, *args: Any) -> Any:
        ctx.mark_non_differentiable(*[arg for arg in args if not arg.requires_grad])
        return args

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:  # noqa: ARG004  PyTorch's signature
        return grad_outputs


class CrossMapLRN2d(Function):
    """Local response normalization across the channels of images.

    As in PyTorch, the first channel never leaves the window: old models were trained this way.
    """

    @staticmethod
    def forward(
        ctx: Any, input: Any, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1
    ) -> Any:
        if input.dim() != 4:
            raise ValueError(f"CrossMapLRN2d: Expected input to be 4D, got {input.dim()}D instead.")
        ctx.size, ctx.alpha, ctx.beta, ctx.k = size, alpha, beta, k
        squares, channels = input * input, input.size(1)
        reach = int((size - 1) / 2 + 1)
        window = squares[:, :reach].sum(1)
        sums = [window]
        for c in range(1, channels):
            if c < channels - reach + 1:
                window = window + squares[:, c + reach - 1]
            if c > reach:
                window = window - squares[:, c - reach]
            sums.append(window)
        ctx.scale = stack(sums, 1) * (alpha / size) + k
        output = input * ctx.scale**-beta
        ctx.save_for_backward(input, output)
        return output

    @staticmethod
    def backward(ctx: Any, grad_output: Any) -> Any:
        input, output = ctx.saved_tensors
        channels, size = input.size(1), ctx.size
        before = int(size - (size - 1) / 2)
        ratio = grad_output * output / ctx.scale
        padded = ratio.new_zeros(input.size(0), channels + size - 1, *input.shape[2:])
        padded.narrow(1, before, channels).copy_(ratio)
        sums = [padded[:, c : c + size].sum(1) for c in range(channels)]
        damped = stack(sums, 1) * (2 * ctx.alpha * ctx.beta / size)
        return grad_output * ctx.scale**-ctx.beta - input * damped, None, None, None, None
