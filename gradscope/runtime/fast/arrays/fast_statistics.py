"""Numba kernels of statistics: counts, extremes, mean and norm, and the first non-finite elements.

The plain twin is record/notes/statistics.py. A row of `cells` has its columns: those of
`Statistics` up to the norm, then the positions of the first elements that are not finite.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gradscope.runtime.core.kernels.support import Array
from gradscope.runtime.fast.compiling.compiled import compiled, inner

BLOCK = 2048
"""Elements that are read together, as bits and as numbers, so that they stay in the cache."""

FINITE, BAD, TOO_LARGE = range(3)
"""Results of a kernel: all finite; something is not; sums overflow, and the twin is needed."""

COUNTED, FIRST = 10, 8
"""Number of columns ahead of those of bad elements, and the number of these."""


# Note [Numbers as integers] The bits of floats as integers have the order of the numbers for
# positive ones, and the reverse for negative ones: the largest integer is the largest number, if
# one is positive. With the sign bit flipped, the largest is the smallest number, if one is
# negative. Otherwise the smallest integer is the smallest positive or the largest negative number.
# Extremes of integers are vectorized, those of floats are not.
@inner
def _extremes(bits: Array, sign: Any) -> tuple[Any, Any, Any]:
    """The largest and smallest integer, and the largest with its sign bit flipped."""
    high, low, far = bits[0], bits[0], bits[0] ^ sign
    for i in range(bits.size):
        one = bits[i]
        high = one if one > high else high  # noqa: FURB136
        low = one if one < low else low  # noqa: FURB136
        turned = one ^ sign
        far = turned if turned > far else far  # noqa: FURB136
    return high, low, far


@inner(fastmath={"reassoc", "contract", "nsz"})
def _sums(values: Array, nothing: Any, none: Any, one: Any) -> tuple[float, float, Any]:
    """The sum, the sum of squares, and the number of zeros."""
    total, squares, zero = 0.0, 0.0, none
    for i in range(values.size):
        value = np.float64(values[i])
        total += value
        squares += value * value
        zero += one if values[i] == nothing else none
    return total, squares, zero


@inner
def _measure(
    values: Array, bits: Array, numbers: tuple[Any, ...], row: Array, words: Array
) -> bool:
    """Write the row of an array, if all is finite. `words` is the row as integers like `bits`."""
    nothing, none, one, sign = numbers
    high, low, far = bits[0], bits[0], bits[0] ^ sign
    zeros, total, squares = 0, 0.0, 0.0
    for start in range(0, values.size, BLOCK):
        sum_, square, zero = _sums(values[start : start + BLOCK], nothing, none, one)
        total += sum_
        squares += square
        if not np.isfinite(squares) or not np.isfinite(total):
            return False
        zeros += int(zero)
        above, below, away = _extremes(bits[start : start + BLOCK], sign)
        high, low, far = max(high, above), min(low, below), max(far, away)
    words[0] = low if low >= none else far ^ sign
    words[1] = high if high >= none else low
    least, greatest = words.view(values.dtype)[:2]
    norm = np.sqrt(squares)
    row[0], row[1], row[2], row[3], row[4] = values.size, 0, 0, 0, zeros
    row[5], row[6] = least, greatest
    row[7], row[8], row[9] = total / values.size, norm / np.sqrt(values.size), norm
    return True


@inner
def _with_bad(values: Array, row: Array) -> int:
    """Write the row of an array with elements that are not finite, or whose squares overflow."""
    nans, above, below, zeros, kept, total, squares = 0, 0, 0, 0, 0, 0.0, 0.0
    low, high = np.inf, -np.inf
    for i in range(values.size):
        value = np.float64(values[i])
        if np.isfinite(value):
            kept += 1
            total += value
            squares += value * value
            zeros += value == 0
            low, high = min(low, value), max(high, value)
            continue
        many = nans + above + below
        if many < FIRST:
            row[COUNTED + many] = i
        if np.isnan(value):
            nans += 1
        elif value > 0:
            above += 1
        else:
            below += 1
    if not (np.isfinite(total) and np.isfinite(squares)):
        return TOO_LARGE
    row[0], row[1], row[2], row[3], row[4] = values.size, nans, above, below, zeros
    row[5:COUNTED] = np.nan
    if kept:
        norm = np.sqrt(squares)
        row[5], row[6] = low, high
        row[7], row[8], row[9] = total / kept, norm / np.sqrt(kept), norm
    return BAD


NUMBERS32 = (np.float32(0), np.int32(0), np.int32(1), np.int32(-(1 << 31)))
NUMBERS64 = (np.float64(0), np.int64(0), np.int64(1), np.int64(-(1 << 63)))


@compiled
def measure32(values: Array, cells: Array, number: int) -> int:
    row = cells[number]
    if _measure(values, values.view(np.int32), NUMBERS32, row, row.view(np.int32)):
        return FINITE
    return _with_bad(values, row)


@compiled
def measure64(values: Array, cells: Array, number: int) -> int:
    row = cells[number]
    if _measure(values, values.view(np.int64), NUMBERS64, row, row.view(np.int64)):
        return FINITE
    return _with_bad(values, row)


MEASURES = {"f": measure32, "d": measure64}
"""Kernels by element kind: `values` are contiguous, at least one."""


def warm() -> None:
    """Call every kernel of this file once per dtype, to compile it."""
    cells = np.empty((1, COUNTED + FIRST))
    for kind, measure in MEASURES.items():
        values = np.ones(BLOCK + 1, kind)
        measure(values, cells, 0)
        values.flags.writeable = False  # as some arrays of recorders
        measure(values, cells, 0)
