"""Functions that keep the shape: softmax, cumulative sums, normalization, logaddexp."""

from __future__ import annotations

from typing import Any

import gradscope.runtime as torch
from gradscope.runtime.masked.masks import _canonical_dim, _combine_input_and_mask
from gradscope.runtime.masked.reductions import amax, amin, norm, prod, sum


def cumsum(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Any:
    """Cumulative sums."""
    dtype = input.dtype if dtype is None else dtype
    first = _canonical_dim(dim, input.ndim)[0]
    kept = _combine_input_and_mask(sum, input, mask)
    return torch.cumsum(kept, first, dtype=dtype).to(dtype=dtype)


def cumprod(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Any:
    """Cumulative products."""
    dtype = input.dtype if dtype is None else dtype
    first = _canonical_dim(dim, input.ndim)[0]
    kept = _combine_input_and_mask(prod, input, mask)
    return torch.cumprod(kept, first, dtype=dtype).to(dtype=dtype)


def softmax(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Any:
    """Softmax; NaN where all elements are masked."""
    dtype = input.dtype if dtype is None else dtype
    first = _canonical_dim(dim, input.ndim)[0]
    kept = _combine_input_and_mask(amax, input, mask)
    return torch.nn.functional.softmax(kept, first, dtype=dtype)


def log_softmax(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Any:
    """The logarithm of softmax."""
    dtype = input.dtype if dtype is None else dtype
    first = _canonical_dim(dim, input.ndim)[0]
    kept = _combine_input_and_mask(amax, input, mask)
    return torch.nn.functional.log_softmax(kept, first, dtype=dtype)


def softmin(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Any:
    """Softmin: softmax of negative values."""
    dtype = input.dtype if dtype is None else dtype
    first = _canonical_dim(dim, input.ndim)[0]
    kept = _combine_input_and_mask(amin, input, mask)
    return torch.nn.functional.softmin(kept, first, dtype=dtype)


def normalize(
    input: Any, ord: float, dim: int, *, eps: float = 1e-12, dtype: Any = None, mask: Any = None
) -> Any:
    """Vectors divided by their norm, or by eps if that is larger."""
    dtype = input.dtype if dtype is None else dtype
    kept = _combine_input_and_mask(sum, input, mask)
    length = norm(input, ord, dim, keepdim=True, dtype=dtype, mask=mask)
    return torch.divide(kept, torch.maximum(length, length.new_full([], eps)))


def logaddexp(
    input: Any, other: Any, *, dtype: Any = None, input_mask: Any = None, other_mask: Any = None
) -> Any:
    """The logarithm of the sum of two exponentials, each with its own mask."""
    dtype = input.dtype if dtype is None else dtype
    left = _combine_input_and_mask(logaddexp, input, input_mask)
    right = _combine_input_and_mask(logaddexp, other, other_mask)
    return torch.logaddexp(left, right).to(dtype=dtype)
