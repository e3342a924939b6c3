"""Numba kernels of resampling. The plain twin is resample_plain in resample.py."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradscope.runtime.core.kernels.support import Array
from gradscope.runtime.core.kernels.windows.taps import Taps
from gradscope.runtime.fast.compiling.compiled import compiled
from gradscope.runtime.fast.threads.spread import spread

COST = 0.7
"""Nanoseconds per weight of one element."""


def along(x: Array, made: Array, table: Taps) -> None:
    """Resample the middle dim of `x` by the table, into `made`."""
    weights = table.weights
    given = np.ones(len(table.places), x.dtype) if weights is None else weights.astype(x.dtype)
    arrays: tuple[Array, Array] = (x[:, :, 0], made[:, :, 0])
    if x.shape[2] > 1:
        _by_rows(_rows, (x, made), table.starts, table.places, given)
    elif weights is None and table.each == 1:
        _by_rows(_copied, arrays, table.places)
    elif table.each == 2:
        _by_rows(_pairs, arrays, table.places, given)
    else:
        _by_rows(_elements, arrays, table.starts, table.places, given)


def _by_rows(kernel: Any, arrays: tuple[Array, Array], *table: Array) -> None:
    """Call a kernel for the planes or rows of `x` and `made`."""
    x, made = arrays
    cost = len(table[-1]) * (x.shape[2] if x.ndim == 3 else 1) * COST
    spread(lambda first, last: kernel(x[first:last], made[first:last], *table), len(x), cost)


@compiled
def _rows(x: Array, made: Array, starts: Array, places: Array, weights: Array) -> None:
    planes, count, width = made.shape
    for p in range(planes):
        for i in range(count):
            row = made[p, i]
            first, last = starts[i], starts[i + 1]
            if first == last:
                row[:] = 0
                continue
            seen, weight = x[p, places[first]], weights[first]
            for k in range(width):
                row[k] = weight * seen[k]
            for j in range(first + 1, last):
                seen, weight = x[p, places[j]], weights[j]
                for k in range(width):
                    row[k] += weight * seen[k]


@compiled
def _elements(x: Array, made: Array, starts: Array, places: Array, weights: Array) -> None:
    rows, count = made.shape
    for r in range(rows):
        seen, row = x[r], made[r]
        for i in range(count):
            total = x.dtype.type(0)
            for j in range(starts[i], starts[i + 1]):
                total += weights[j] * seen[places[j]]
            row[i] = total


@compiled
def _pairs(x: Array, made: Array, places: Array, weights: Array) -> None:
    rows, count = made.shape
    for r in range(rows):
        seen, row = x[r], made[r]
        for i in range(count):
            one = weights[2 * i] * seen[places[2 * i]]
            row[i] = one + weights[2 * i + 1] * seen[places[2 * i + 1]]


@compiled
def _copied(x: Array, made: Array, places: Array) -> None:
    rows, count = made.shape
    for r in range(rows):
        seen, row = x[r], made[r]
        for i in range(count):
            row[i] = seen[places[i]]


def warm() -> None:
    """Call every kernel of this file once per dtype, to compile it."""
    from gradscope.runtime.core.kernels.windows import taps

    for kind in (np.dtype(np.float32), np.dtype(np.float64)):
        for width in (1, 2):
            x = np.zeros((1, 2, width), kind)
            made = np.zeros((1, 4, width), kind)
            along(x, made, taps.nearest(2, 4, None, False))
            along(x, made, taps.linear(2, 4, None, False, kind))
            along(x, made, taps.cubic(2, 4, None, False, kind))
