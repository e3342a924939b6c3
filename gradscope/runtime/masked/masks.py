"""Replacements of masked elements, and masks of results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gradscope.runtime as torch

Dims = int | tuple[int, ...] | None

REDUCTIONS = frozenset({
    "amax", "amin", "argmax", "argmin", "logsumexp", "mean", "median", "norm", "prod", "std",
    "sum", "var",
})  # fmt: skip
ELEMENT_FOR_ELEMENT = frozenset({
    "cumprod", "cumsum", "log_softmax", "normalize", "softmax", "softmin",
})  # fmt: skip

NUMBERS = {"sum": 0, "cumsum": 0, "prod": 1, "cumprod": 1}
LOWEST = frozenset({"amax", "argmax", "logaddexp", "logsumexp"})
HIGHEST = frozenset({"amin", "argmin"})


def _reduction_identity(op_name: str, input: Any, *args: Any) -> Any:
    """The identity element of a reduction; None if there is none."""
    name = op_name.rpartition(".")[2]
    if name in ("mean", "var", "std"):
        return None
    if name == "median":  # of values other than NaN
        dtype = input.dtype if torch.is_floating_point(input) else torch.float
        return torch.tensor(torch.nan, dtype=dtype, device=input.device)
    value = _norm_identity(input, *args) if name == "norm" else _identity(name, input)
    if value is None:
        raise NotImplementedError(f"identity of {name} on {input.dtype} input")
    return torch.tensor(value, dtype=input.dtype, device=input.device)


def _norm_identity(input: Any, order: float | None = 2, *_: Any) -> float:
    if order != float("-inf"):
        return 0
    if not torch.is_floating_point(input):
        raise AssertionError(f"input must be floating point, got {input.dtype}")
    return torch.inf


def _identity(name: str, input: Any) -> Any:
    if name in NUMBERS:
        return NUMBERS[name]
    if name not in LOWEST | HIGHEST:
        return None
    low = name in LOWEST
    if torch.is_floating_point(input):
        return -torch.inf if low else torch.inf
    if torch.is_complex(input) and name == "logsumexp":
        return complex(-torch.inf, 0)
    if torch.is_signed(input) or input.dtype == torch.uint8:
        limits = torch.iinfo(input.dtype)
        return limits.min if low else limits.max
    return None


def _canonical_dim(dim: Dims, ndim: int) -> tuple[int, ...]:
    """Non-negative dims in order; all of them for None and ()."""
    if dim is None or dim == ():
        return tuple(range(ndim))
    ndim = max(ndim, 1)
    dims: list[int] = []
    for each in (dim,) if isinstance(dim, int) else dim:
        if each in dims:
            raise RuntimeError(f"dim={each} appears multiple times in the list of dims")
        if not -ndim <= each < ndim:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [{-ndim}, {ndim - 1}], "
                f"but got {each})"
            )
        dims.append(each % ndim)
    return tuple(sorted(dims))


def _where(mask: Any, input: Any, fill_value: Any) -> Any:
    return torch.where(mask, input, fill_value)


def _input_mask(input: Any, *args: Any, **kwargs: Any) -> Any:
    """The mask as booleans in the shape of the input."""
    mask = kwargs.get("mask")
    if mask is None:
        raise ValueError("_input_mask requires explicit mask")
    if mask.shape != input.shape:
        if mask.ndim > input.ndim:
            raise IndexError(
                "_input_mask expected broadcastable mask "
                "(got mask dimensionality higher than of the input)"
            )
        mask = torch.broadcast_to(mask.clone(), input.shape)
    return mask.to(dtype=torch.bool)


def _output_mask(op: Callable[..., Any], input: Any, *args: Any, **kwargs: Any) -> Any:
    """Whether each result has at least one unmasked element."""
    if not callable(op):
        raise ValueError(f"_output_mask expected masked operation (got {type(op).__name__} object)")
    name = op.__name__
    if name in ELEMENT_FOR_ELEMENT:
        return _input_mask(input, *args, **kwargs)
    if name not in REDUCTIONS:
        raise ValueError(
            f"_output_mask expected masked operation (got callable {op.__module__}.{name})"
        )
    if name == "norm":
        args = args[1:]
    found = _input_mask(input, *args, **kwargs)
    dims = _canonical_dim(args[0] if args else kwargs.get("dim"), input.ndim)
    for dim in reversed(dims):
        found = found.any(dim=dim, keepdim=bool(kwargs.get("keepdim", False)))
    return found


def _combine_input_and_mask(op: Callable[..., Any], input: Any, mask: Any, *args: Any) -> Any:
    """The input, with masked elements replaced by the identity element."""
    if mask is None:
        return input
    kept = _input_mask(input, mask=mask)
    if not callable(op):
        raise ValueError(
            f"_combine_input_and_mask expected masked operation (got {type(op).__name__} object)"
        )
    return _where(kept, input, _reduction_identity(op.__name__, input, *args))
