"""Sums, products, extremes and norms of unmasked elements."""

from __future__ import annotations

from typing import Any

import gradscope.runtime as torch
from gradscope.runtime.masked.masks import Dims, _canonical_dim, _combine_input_and_mask

SMALL = frozenset({torch.uint8, torch.bool, torch.int8, torch.int16, torch.int32})
"""Dtypes whose sums and products are 64-bit integers."""


def _wide(dtype: Any, input: Any) -> Any:
    if dtype is not None:
        return dtype
    return torch.int64 if input.dtype in SMALL else input.dtype


def sum(
    input: Any,
    dim: Dims = None,
    *,
    keepdim: bool | None = False,
    dtype: Any = None,
    mask: Any = None,
) -> Any:
    """The sum; 0 for no elements."""
    dtype = _wide(dtype, input)
    dims = _canonical_dim(dim, input.ndim)
    return torch.sum(_combine_input_and_mask(sum, input, mask), dims, bool(keepdim), dtype=dtype)


def prod(
    input: Any,
    dim: Dims = None,
    *,
    keepdim: bool | None = False,
    dtype: Any = None,
    mask: Any = None,
) -> Any:
    """The product, dim by dim; 1 for no elements."""
    dtype = _wide(dtype, input)
    dims = _canonical_dim(dim, input.ndim)
    result = _combine_input_and_mask(prod, input, mask).to(dtype=dtype)
    for each in reversed(dims):
        result = result.prod(dim=each, keepdim=bool(keepdim))
    return result


def _extreme(name: str, meaning: str) -> Any:
    """A function of torch, on the unmasked elements."""

    def extreme(
        input: Any,
        dim: Dims = None,
        *,
        keepdim: bool | None = False,
        dtype: Any = None,
        mask: Any = None,
    ) -> Any:
        kept = _combine_input_and_mask(extreme, input, mask)
        dims = dim if name.startswith("arg") else _canonical_dim(dim, kept.ndim)
        return getattr(torch, name)(kept, dims, bool(keepdim)).to(dtype=dtype or input.dtype)

    extreme.__name__ = extreme.__qualname__ = name
    extreme.__doc__ = meaning
    return extreme


amax = _extreme("amax", "The largest; the dtype's lowest number of none.")
amin = _extreme("amin", "The smallest; the dtype's highest number of none.")
argmax = _extreme("argmax", "Where the largest is.")
argmin = _extreme("argmin", "Where the smallest is.")


def logsumexp(
    input: Any,
    dim: Dims = None,
    *,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Any = None,
) -> Any:
    """The logarithm of the sum of exponentials."""
    dims = _canonical_dim(dim, input.ndim)
    kept = _combine_input_and_mask(logsumexp, input, mask)
    return torch.logsumexp(kept, dims, keepdim=keepdim).to(dtype=dtype or input.dtype)


def norm(
    input: Any,
    ord: float | None = 2.0,
    dim: Dims = None,
    *,
    keepdim: bool | None = False,
    dtype: Any = None,
    mask: Any = None,
) -> Any:
    """The norm of an order, of vectors."""
    kept = _combine_input_and_mask(norm, input, mask, ord)
    dims = _canonical_dim(dim, input.ndim)
    dtype = dtype or input.dtype
    return torch.linalg.vector_norm(kept, ord, dims, bool(keepdim), dtype=dtype)
