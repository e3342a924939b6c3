"""Numba kernels for large arrays. Import it by `support.fast`.

Each has a plain twin elsewhere. Tests compare the two.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradscope.runtime.core.kernels.special.special import ERF_DENOMINATOR, ERF_NUMERATOR
from gradscope.runtime.core.kernels.support import Array
from gradscope.runtime.fast.compiling.compiled import compiled
from gradscope.runtime.fast.random import fast_normal
from gradscope.runtime.fast.threads.spread import spread


def normal_blocks(unit: Array) -> Array:
    return fast_normal.normal_blocks(unit)


def _each(kernel: Any, x: Array, kind: Any, cost: float) -> Array:
    """Apply a kernel to each element, at `cost` nanoseconds each."""
    out = np.empty(x.shape, kind)
    flat, made = np.ascontiguousarray(x).reshape(-1), out.reshape(-1)
    spread(lambda first, last: kernel(flat[first:last], made[first:last]), x.size, cost)
    return out


def erf_float32(x: Array) -> Array:
    return _each(_erf_float32, x, np.float32, 1.0)


N0, N1, N2, N3, N4, N5, N6 = ERF_NUMERATOR
D0, D1, D2, D3, D4, D5 = ERF_DENOMINATOR


# Without branches and loops over coefficients, and with NumPy's rules for division, the compiler
# vectorizes it: seven times as fast.
@compiled
def _erf_float32(x: Array, out: Array) -> None:
    for i in range(x.size):
        clipped = np.float32(4.0) if x[i] > np.float32(4.0) else x[i]  # noqa: FURB136 -- keeps NaN
        clipped = np.float32(-4.0) if clipped < np.float32(-4.0) else clipped  # noqa: FURB136
        wide = np.float64(clipped)
        s = wide * wide
        numerator = (((((s * N0 + N1) * s + N2) * s + N3) * s + N4) * s + N5) * s + N6
        denominator = ((((s * D0 + D1) * s + D2) * s + D3) * s + D4) * s + D5
        out[i] = wide * numerator / denominator


def erf_float64(x: Array) -> Array:
    return _each(_erf_float64, x, np.float64, 10.0)


@compiled
def _erf_float64(x: Array, out: Array) -> None:
    for i in range(x.size):
        out[i] = math.erf(x[i])


def erfc_float64(x: Array) -> Array:
    return _each(_erfc_float64, x, np.float64, 10.0)


@compiled
def _erfc_float64(x: Array, out: Array) -> None:
    for i in range(x.size):
        out[i] = math.erfc(np.float64(x[i]))


@compiled
def put_add(out: Array, positions: Array, values: Array) -> None:
    for i in range(positions.size):
        out[positions[i]] += values[i]


@compiled
def add_rows(out: Array, index: Array, rows: Array) -> None:
    for i in range(index.size):
        row = out[index[i]]
        for j in range(row.size):
            row[j] += rows[i, j]


@compiled
def swap_forward(order: Array, others: Array) -> None:
    for place in range(others.size):
        other = others[place]
        order[place], order[other] = order[other], order[place]


@compiled
def _log1p_float64(x: Array, out: Array) -> None:
    for i in range(x.size):
        out[i] = math.log1p(x[i])


def log1p_float64(x: Array) -> Array:
    return _each(_log1p_float64, x, np.float64, 8.0)


def warm() -> None:
    """Call every kernel of this file once per dtype, to compile it."""
    for kind in (np.float32, np.float64):
        x = np.ones(4, kind)
        (erf_float32 if kind is np.float32 else erf_float64)(x)
        _add_ones(x)
    erfc_float64(np.ones(4))
    log1p_float64(np.ones(4))
    _add_ones(np.ones(4, np.int64))
    swap_forward(np.arange(4), np.arange(3))


def _add_ones(values: Array) -> None:
    places = np.arange(values.size)
    put_add(np.zeros_like(values), places, values)
    matrix = values.reshape(values.size, 1)
    add_rows(np.zeros_like(matrix), places, matrix)
