"""Helpers of distributions: broadcasting, probabilities and logits."""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from typing import Any, Final

import gradscope.runtime as torch

__all__ = [
    "broadcast_all",
    "clamp_probs",
    "lazy_property",
    "logits_to_probs",
    "probs_to_logits",
    "tril_matrix_to_vec",
    "vec_to_tril_matrix",
]

euler_constant: Final = 0.57721566490153286060


def is_number(value: Any) -> bool:
    return isinstance(value, int | float)


def broadcast_all(*values: Any) -> tuple[Any, ...]:
    """Numbers and tensors as tensors of one shape; numbers take the dtype of the first tensor."""
    tensors = [value for value in values if isinstance(value, torch.Tensor)]
    if not all(is_number(value) or isinstance(value, torch.Tensor) for value in values):
        raise ValueError(
            "Input arguments must all be instances of Number, torch.Tensor or objects "
            "implementing __torch_function__."
        )
    kind = tensors[0].dtype if tensors else torch.get_default_dtype()
    made = [torch.tensor(v, dtype=kind) if is_number(v) else v for v in values]
    return tuple(torch.broadcast_tensors(*made))


def standard_normal(shape: Any, like: Any) -> Any:
    """Standard normal numbers of a shape, in the dtype of a tensor."""
    return torch.empty(shape, dtype=like.dtype).normal_()


_standard_normal = standard_normal


def sum_rightmost(value: Any, dim: int) -> Any:
    """The sum over the last dims."""
    if dim == 0:
        return value
    return value.reshape((*value.shape[:-dim], -1)).sum(-1)


_sum_rightmost = sum_rightmost


def logits_to_probs(logits: Any, is_binary: bool = False) -> Any:
    """Probabilities of logits: of binary ones, or of a dim of classes."""
    return torch.sigmoid(logits) if is_binary else torch.nn.functional.softmax(logits, dim=-1)


def clamp_probs(probs: Any) -> Any:
    """Probabilities, clamped to exclude 0 and 1."""
    eps = torch.finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def probs_to_logits(probs: Any, is_binary: bool = False) -> Any:
    inside = clamp_probs(probs)
    logarithm = torch.log(inside)
    return logarithm - torch.log1p(-inside) if is_binary else logarithm


class lazy_property:  # noqa: N801
    """A property that is computed once, with gradients, and stored in the instance's dict."""

    def __init__(self, wrapped: Callable[[Any], Any]) -> None:
        self.wrapped = wrapped
        update_wrapper(self, wrapped)  # type: ignore[arg-type]

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        with torch.enable_grad():
            value = self.wrapped(instance)
        setattr(instance, self.wrapped.__name__, value)
        return value


def _below(size: int, diag: int) -> Any:
    """Which elements of a square matrix are on or below a diagonal."""
    steps = torch.arange(size)
    return steps < steps.view(-1, 1) + (diag + 1)


def tril_matrix_to_vec(mat: Any, diag: int = 0) -> Any:
    """The elements of matrices on or below a diagonal, as a vector."""
    n = mat.shape[-1]
    if diag < -n or diag >= n:
        raise ValueError(f"diag ({diag}) provided is outside [{-n}, {n - 1}].")
    return mat[..., _below(n, diag)]


def vec_to_tril_matrix(vec: Any, diag: int = 0) -> Any:
    """Matrices with these elements on and below a diagonal, zeros above."""
    odd = 1 + 2 * diag
    root = (odd**2 + 8 * vec.shape[-1] + 4 * abs(diag) * (diag + 1)) ** 0.5
    size = (root - odd) / 2
    if round(size) - size > torch.finfo(vec.dtype).eps:
        raise ValueError(
            f"The size of last dimension is {vec.shape[-1]} which cannot be expressed as the lower "
            "triangular part of a square D x D matrix."
        )
    n = round(size)
    made = vec.new_zeros((*vec.shape[:-1], n, n))
    made[..., _below(n, diag)] = vec
    return made
