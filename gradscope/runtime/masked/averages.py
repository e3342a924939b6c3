"""Means, medians and deviations of unmasked elements."""

from __future__ import annotations

from typing import Any

import gradscope.runtime as torch
from gradscope.runtime.masked.masks import (
    Dims,
    _canonical_dim,
    _combine_input_and_mask,
    _input_mask,
)
from gradscope.runtime.masked.reductions import sum


def _has_fractions(dtype: Any) -> bool:
    return bool(dtype.is_floating_point or dtype.is_complex)


def _count(input: Any, mask: Any, dim: Dims, keepdim: bool | None) -> Any:
    """The number of unmasked elements."""
    if mask is not None:
        return mask.sum(dim=dim, keepdim=bool(keepdim))
    ones = torch.ones(input.shape, dtype=torch.int64, device=input.device)
    return sum(ones, dim, keepdim=keepdim)


def mean(
    input: Any,
    dim: Dims = None,
    *,
    keepdim: bool | None = False,
    dtype: Any = None,
    mask: Any = None,
) -> Any:
    """The mean; NaN for no elements."""
    source = "Input" if dtype is None else "Optional"
    dtype = input.dtype if dtype is None else dtype
    if not _has_fractions(dtype):
        raise ValueError(
            f"mean(): Could not infer output dtype. {source} dtype must be either "
            f"a floating point or complex dtype. Got: {dtype}"
        )
    kept = None if mask is None else _input_mask(input, mask=mask)
    count = _count(input, kept, dim, keepdim)
    return sum(input, dim, keepdim=keepdim, dtype=dtype, mask=kept) / count


def median(
    input: Any, dim: int = -1, *, keepdim: bool = False, dtype: Any = None, mask: Any = None
) -> Any:
    """The lower median; NaN for no elements."""
    dtype = input.dtype if dtype is None else dtype
    first = _canonical_dim(dim, input.ndim)[0]
    whole = not torch.is_floating_point(input)
    if whole:
        input = input.to(dtype=torch.float)
    kept = _combine_input_and_mask(median, input, mask)
    found = torch.nanmedian(kept, first, keepdim).values
    if not whole:
        return found
    if torch.isnan(found).any():
        raise ValueError(
            "masked median expects no fully masked out rows if dtype is not floating point"
        )
    return found.to(dtype=dtype)


def var(
    input: Any,
    dim: Dims = None,
    unbiased: bool | None = None,
    *,
    correction: float | None = None,
    keepdim: bool | None = False,
    dtype: Any = None,
    mask: Any = None,
) -> Any:
    """The variance; NaN for no elements."""
    subtracted = _subtracted(unbiased, correction)
    dtype = _computed_in(input.dtype) if dtype is None else dtype
    return _spread(input, dim, subtracted, keepdim, dtype, mask)


def std(
    input: Any,
    dim: Dims = None,
    unbiased: bool | None = None,
    *,
    correction: int | None = None,
    keepdim: bool | None = False,
    dtype: Any = None,
    mask: Any = None,
) -> Any:
    """The standard deviation."""
    subtracted = _subtracted(unbiased, correction)
    dtype = _computed_in(input.dtype) if dtype is None else dtype
    return torch.sqrt(_spread(input, dim, subtracted, keepdim, dtype, mask))


def _subtracted(unbiased: bool | None, correction: float | None) -> float:
    if unbiased is not None and correction is not None:
        raise AssertionError("Only one of unbiased and correction may be given")
    if correction is not None:
        return float(correction)
    return 0.0 if unbiased is False else 1.0


def _computed_in(dtype: Any) -> Any:
    return dtype if _has_fractions(dtype) else torch.float32


def _spread(
    input: Any, dim: Dims, subtracted: float, keepdim: bool | None, dtype: Any, mask: Any
) -> Any:
    """The mean squared deviation, with the correction subtracted from the count."""
    inside = _computed_in(dtype)
    kept = None if mask is None else _input_mask(input, mask=mask)
    count = _count(input, kept, dim, keepdim=True)
    center = torch.divide(sum(input, dim, keepdim=True, dtype=dtype, mask=kept), count)
    away = torch.subtract(input, center)
    total = sum(away * away.conj(), dim, keepdim=keepdim, dtype=inside, mask=kept)
    if not keepdim:
        count = count.reshape(total.shape)
    if subtracted != 0:
        count = count.to(inside.to_real())
        count = torch.subtract(count, subtracted)
        count = torch.maximum(count, count.new_zeros([]))
    return torch.divide(total, count).to(dtype=dtype)
