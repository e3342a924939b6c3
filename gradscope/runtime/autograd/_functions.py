"""`torch.autograd._functions`: functions that PyTorch implements as custom functions."""

from __future__ import annotations

from math import prod
from typing import Any

from gradscope.runtime.core.autograd.custom.function import Function


class Resize(Function):
    """The same elements with other sizes."""

    @staticmethod
    def forward(ctx: Any, tensor: Any, sizes: Any) -> Any:
        ctx.before = tensor.size()
        if tensor.numel() != prod(sizes):
            raise RuntimeError(
                f"requested resize to {'x'.join(map(str, sizes))} ({prod(sizes)} elements in "
                f"total), but the given tensor has a size of {'x'.join(map(str, tensor.size()))} "
                f"({tensor.numel()} elements). autograd's resize can only change the shape of a "
                "given tensor, while preserving the number of elements. "
            )
        return tensor.contiguous().view(*sizes)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad.contiguous().view(ctx.before), None
