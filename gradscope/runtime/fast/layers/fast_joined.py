"""Numba kernels that do several calls of a step in one pass, for replayed steps.

The plain twins are the calls of operations they replace (see joined.py).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradscope.runtime.core.kernels.support import Array
from gradscope.runtime.fast.arrays.fast_math import ONE, ZERO, exp_of_each, f32
from gradscope.runtime.fast.compiling.compiled import compiled


@compiled
def clip(x: Array) -> None:
    """Set negative numbers to zero, but not NaN."""
    zero = x.dtype.type(0)
    for i in range(x.size):
        x[i] = zero if x[i] <= zero else x[i]  # noqa: FURB136 -- keeps NaN


@compiled
def keep_above(grad: Array, x: Array, out: Array) -> None:
    """The gradient where x is above zero or NaN, otherwise zero."""
    zero = x.dtype.type(0)
    for i in range(x.size):
        out[i] = zero if x[i] <= zero else grad[i]


@compiled
def add_rows(x: Array, out: Array) -> None:
    """Sum the rows in order."""
    for j in range(x.shape[1]):
        out[j] = x[0, j]
    for i in range(1, x.shape[0]):
        for j in range(x.shape[1]):
            out[j] += x[i, j]


@compiled
def cross_entropy(x: Array, target: Array, ignored: int, slope: Array) -> Any:
    """The sum of all losses and their count; the gradient of their mean goes to `slope`.

    An invalid class makes the count negative.
    """
    count, width = x.shape
    tops = np.empty(count, x.dtype)
    for i in range(count):
        top = x[i, 0]
        for j in range(1, width):
            top = top if x[i, j] <= top else x[i, j]  # noqa: FURB136 -- keeps NaN
        tops[i] = top
        for j in range(width):
            slope[i, j] = x[i, j] - top
    exp_of_each(slope.reshape(-1))
    total, kept = 0.0, 0
    for i in range(count):
        place = target[i]
        if place == ignored:
            slope[i, :] = ZERO
            continue
        if place < 0 or place >= width:
            return total, -1
        among = ZERO
        for j in range(width):
            among += slope[i, j]
        total += math.log(np.float64(among)) - np.float64(x[i, place] - tops[i])
        kept += 1
        share = ONE / among
        for j in range(width):
            slope[i, j] *= share
        slope[i, place] -= ONE
    share = f32(1.0 / max(kept, 1))
    for i in range(count):
        for j in range(width):
            slope[i, j] *= share
    return total, kept


def warm() -> None:
    """Call every kernel of this file once per dtype, to compile it."""
    for kind in (np.float32, np.float64):
        x = np.ones((2, 2), kind)
        clip(x.reshape(-1))
        add_rows(x, np.empty(2, kind))
        keep_above(x[0].copy(), x[1].copy(), np.empty(2, kind))
    x = np.ones((2, 2), np.float32)
    cross_entropy(x, np.zeros(2, np.int64), -100, x.copy())
