"""Functions of arrays that operations need and NumPy lacks: activations, softmax, scans.

float16 and bfloat16 are computed in float32 and rounded once, as in PyTorch on the CPU.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any, Final, cast

import ml_dtypes
import numpy as np

from gradscope.runtime.core.kernels.special.special import erf
from gradscope.runtime.core.kernels.support import (
    HALVES,
    Array,
    Family,
    elementwise,
    quiet,
)


@elementwise
def sigmoid(x: Array) -> Array:
    y = np.exp(-x)
    y += 1
    return np.reciprocal(y)


FEW: Final = 1 << 12
FAST: Final = Family("arrays.fast_activations", few=FEW)
"""Compiled kernels of smooth activations. The functions here are their plain twins."""
EXACT: Final = Family("arrays.fast_relu", few=FEW)
"""Compiled kernels of relu, with the same bits."""


def _pays(x: Array) -> bool:
    return x.dtype == np.float32 and FAST.wins(x.size)


@elementwise
def silu(x: Array) -> Array:
    if _pays(x):
        return cast("Array", FAST.kernels.silu(x))
    y = np.exp(-x)
    y += 1
    return x / y


def silu_backward(grad: Array, x: Array) -> Array | None:
    """Return the gradient of silu's input by a compiled kernel; None if that is not faster."""
    if _pays(x) and grad.dtype == np.float32 and grad.shape == x.shape:
        return cast("Array", FAST.kernels.silu_backward(grad, x))
    return None


def relu(x: Array) -> Array:
    """Return x where it is above zero or NaN, otherwise zero."""
    if EXACT.wins_by_now(x.size) and x.dtype.char in "fd" and x.flags.c_contiguous:
        return cast("Array", EXACT.kernels.relu(x))
    return np.asarray(np.maximum(x, _number(0.0, x.dtype)))


def threshold_backward(grad: Array, x: Array, threshold: float) -> Array:
    """Return the gradient where x is above the threshold or NaN, otherwise zero."""
    if EXACT.wins_by_now(x.size) and _are_alike(grad, x):
        return cast("Array", EXACT.kernels.threshold_backward(grad, x, threshold))
    made = grad.copy()
    least = threshold or _number(0.0, x.dtype)
    np.putmask(made, np.less_equal(x, least), _number(0.0, made.dtype))
    return made


def _are_alike(one: Array, other: Array) -> bool:
    """Whether both are contiguous, of one shape and dtype, float32 or float64."""
    return (
        one.dtype == other.dtype
        and other.dtype.char in "fd"
        and one.shape == other.shape
        and one.flags.c_contiguous
        and other.flags.c_contiguous
    )


@elementwise
def softplus(x: Array, beta: float = 1.0, threshold: float = 20.0) -> Array:
    """Return log(1 + exp(βx)) / β, or x where βx is above the threshold."""
    scaled = x * beta
    y = np.log1p(np.exp(scaled)) / beta
    return np.where(scaled > threshold, x, y)


_SQRT_HALF: Final = math.sqrt(0.5)
_SQRT_TWO_OVER_PI: Final = math.sqrt(2.0 / math.pi)
_CUBIC: Final = 0.044715  # of the tanh approximation of the normal distribution


_DENSITY_AT_ZERO: Final = 1.0 / math.sqrt(2.0 * math.pi)


@cache
def _number(value: float, dtype: np.dtype[Any]) -> Array:
    """Return a number as an array: NumPy computes with it in half the time."""
    return np.array(value, dtype)


@elementwise
def gelu(x: Array, approximate: str = "none") -> Array:
    """Return x times the share of a normal distribution below x."""
    if _pays(x):
        kernels = FAST.kernels
        return cast("Array", kernels.gelu(x) if approximate == "none" else kernels.gelu_tanh(x))
    if approximate == "tanh":
        y = np.tanh(_SQRT_TWO_OVER_PI * (x + _CUBIC * x * x * x))
    else:
        y = np.empty_like(x)  # laid out like x, unlike erf's result
        y[...] = erf(x * _number(_SQRT_HALF, x.dtype))
    return (y + _number(1.0, x.dtype)) * x * _number(0.5, x.dtype)


def gelu_backward(grad: Array, x: Array, approximate: str = "none") -> Array:
    """Return the gradient of gelu's input."""
    if _pays(x) and grad.dtype == np.float32 and grad.shape == x.shape:
        kernels = FAST.kernels
        exact = approximate == "none"
        kernel = kernels.gelu_backward if exact else kernels.gelu_tanh_backward
        return cast("Array", kernel(grad, x))
    wide = x.astype(np.float32) if x.dtype in HALVES else x
    return np.asarray(grad * _gelu_slope(wide, approximate)).astype(x.dtype, copy=False)


@elementwise
def _gelu_slope(x: Array, approximate: str) -> Any:
    if approximate == "tanh":
        square = x * x
        y = np.tanh(_SQRT_TWO_OVER_PI * (x + _CUBIC * x * square))
        inner_slope = _SQRT_TWO_OVER_PI * (1.0 + (3.0 * _CUBIC) * square)
        return 0.5 * (1.0 + y) + 0.5 * x * (1.0 - y * y) * inner_slope
    kind = x.dtype
    half = _number(0.5, kind)
    below = half * (_number(1.0, kind) + erf(x * _number(_SQRT_HALF, kind)))
    return below + x * np.exp(x * x * _number(-0.5, kind)) * _number(_DENSITY_AT_ZERO, kind)


@quiet
def xlogy(x: Array, y: Array) -> Array:
    """Return x * log(y), zero where x is zero unless y is NaN."""
    if x.dtype in HALVES:
        return xlogy(x.astype(np.float32), y.astype(np.float32)).astype(x.dtype)
    product = np.asarray(x * np.log(y))
    return np.where((x == 0) & ~np.isnan(y), np.zeros((), product.dtype), product)


def nan_to_num(
    x: Array, nan: float | None = None, posinf: float | None = None, neginf: float | None = None
) -> Array:
    """Replace NaN and the infinities, by default by zero and the dtype's limits."""
    if x.dtype.kind == "c":
        parts = (nan_to_num(part, nan, posinf, neginf) for part in (x.real, x.imag))
        return np.stack(list(parts), axis=-1).view(x.dtype)[..., 0]
    if x.dtype.kind in "biu":
        return x.copy()
    limits = ml_dtypes.finfo(x.dtype)
    y = np.where(np.isnan(x), x.dtype.type(0.0 if nan is None else nan), x)
    y[x == np.inf] = limits.max if posinf is None else posinf
    y[x == -np.inf] = limits.min if neginf is None else neginf
    return y


@quiet
def logaddexp(x: Array, y: Array) -> Array:
    """Return log(exp(x) + exp(y)); of complex numbers on the branch of the larger one."""
    if x.dtype in HALVES:
        return logaddexp(x.astype(np.float32), y.astype(np.float32)).astype(x.dtype)
    if x.dtype.kind != "c":
        return np.asarray(np.logaddexp(x, y))
    first = x.real >= y.real
    most, least = np.where(first, x, y), np.where(first, y, x)
    made = most + np.log1p(np.exp(least - most))
    return np.where(np.isneginf(most.real), y, made)


@elementwise
def softmax(x: Array, dim: int) -> Array:
    y = np.exp(_less_maximum(x, dim))
    y /= _sum(y, dim)
    return y


@elementwise
def log_softmax(x: Array, dim: int) -> Array:
    shifted = _less_maximum(x, dim)
    return shifted - np.log(_sum(np.exp(shifted), dim))


@elementwise
def logsumexp(x: Array, dim: int | tuple[int, ...], keepdim: bool = False) -> Any:
    if x.size == 0:
        return np.log(np.sum(x, axis=dim, keepdims=keepdim))
    if x.ndim == 0 and x.dtype.kind != "c":
        return x
    if x.ndim == 0:
        return np.log(np.exp(x - x.real)) + x.real
    top = np.maximum.reduce(x.real, axis=dim, keepdims=True)
    top = np.where(np.isinf(top), top.dtype.type(0), top)
    result = np.log(np.add.reduce(np.exp(x - top), axis=dim, keepdims=True)) + top
    return result if keepdim else np.squeeze(result, dim)


def _less_maximum(x: Array, dim: int) -> Array:
    if x.size == 0 or x.ndim == 0:
        return x - x
    return np.asarray(x - np.maximum.reduce(x, axis=dim, keepdims=True))


def _sum(x: Array, dim: int) -> Array:
    """Sum over one dim, which stays with size 1."""
    if x.ndim == 0:
        return x
    if dim in (-1, x.ndim - 1) and x.flags.c_contiguous and x.size:
        return (x @ np.ones(x.shape[-1], x.dtype))[..., None]
    return np.asarray(np.add.reduce(x, axis=dim, keepdims=True))


def cumsum(x: Array, dim: int, dtype: np.dtype[Any] | None = None) -> Array:
    """Return running sums, each rounded separately. Integers become int64."""
    return _scan(np.add, x, dim, dtype)


def cumprod(x: Array, dim: int, dtype: np.dtype[Any] | None = None) -> Array:
    """Return running products, in the dtypes of `cumsum`."""
    return _scan(np.multiply, x, dim, dtype)


# PyTorch's accumulation dtypes: one step wider than the result.
_ACCUMULATED_IN: Final[dict[np.dtype[Any], np.dtype[Any]]] = {
    np.dtype(np.float32): np.dtype(np.float64),
    np.dtype(np.complex64): np.dtype(np.complex128),
    **dict.fromkeys(HALVES, np.dtype(np.float32)),
}


@quiet
def _scan(step: np.ufunc, x: Array, dim: int, dtype: np.dtype[Any] | None) -> Array:
    if dtype is None:
        dtype = np.dtype(np.int64) if x.dtype.kind in "biu" else x.dtype
    wide = _ACCUMULATED_IN.get(dtype, dtype)
    values = x.astype(dtype, copy=False).astype(wide, copy=False)
    if x.ndim == 0:
        return values.astype(dtype)
    made = np.empty(values.shape, wide)
    return np.asarray(step.accumulate(values, axis=dim, out=made)).astype(dtype, copy=False)
