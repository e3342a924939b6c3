"""Conversion of parameters to one vector, and back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gradscope.runtime.core.ops.shape.joining import cat
from gradscope.runtime.core.tensors.tensor.tensor import Tensor


def parameters_to_vector(parameters: Iterable[Any]) -> Any:
    return cat([param.view(-1) for param in parameters])


def vector_to_parameters(vec: Any, parameters: Iterable[Any]) -> None:
    """Make the parameters views of parts of this vector."""
    if not isinstance(vec, Tensor):
        raise TypeError(f"expected torch.Tensor, but got: {type(vec).__name__}")
    start = 0
    for param in parameters:
        count = param.numel()
        param.data = vec.narrow(0, start, count).view_as(param).data
        start += count
