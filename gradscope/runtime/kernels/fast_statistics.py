"""Numba kernels that measure an array in one pass: sums, extremes, zeros, what is not finite.

Their plain twin is in record/statistics.py, which also takes what is not finite.
"""

from __future__ import annotations

from struct import pack, unpack
from typing import Any

import numpy as np

from gradscope.runtime.kernels.compiled import compiled, inner
from gradscope.runtime.kernels.support import Array

BLOCK = 2048
"""Elements that are looked at together, as bits and then as numbers: they stay in the cache."""


# Note [Numbers as integers]
# The bits of a float, taken as a signed integer, order positive numbers as they are, and negative
# ones the other way round; with all bits but the sign turned over they are in order, too. Least and
# greatest of integers become vector instructions, those of floats do not.
@inner
def _as_integers(
    bits: Array, sign: Any, magnitude: Any, none: Any, one: Any
) -> tuple[Any, Any, Any]:
    """The least and the greatest element, as integers in order, and how many are zero."""
    low, high = magnitude, ~magnitude
    zero = none
    for i in range(bits.size):
        key = bits[i] ^ ((bits[i] >> sign) & magnitude)
        low = key if key < low else low  # noqa: FURB136
        high = key if key > high else high  # noqa: FURB136
        zero += one if bits[i] & magnitude == none else none
    return low, high, zero


@inner(fastmath={"reassoc", "contract", "nsz"})
def _sums(values: Array) -> tuple[float, float]:
    total, squares = 0.0, 0.0
    for i in range(values.size):
        value = np.float64(values[i])
        total += value
        squares += value * value
    return total, squares


@inner
def _measure(
    values: Array, bits: Array, exponent: Any, sign: Any, magnitude: Any, none: Any, one: Any
) -> tuple[bool, int, Any, Any, float, float]:
    """Whether all is finite, zeros, least and greatest as integers, sum, sum of squares."""
    zeros, total, squares = 0, 0.0, 0.0
    low, high = magnitude, ~magnitude
    for start in range(0, values.size, BLOCK):
        least, most, zero = _as_integers(bits[start : start + BLOCK], sign, magnitude, none, one)
        if most >= exponent or least <= ~exponent:
            return False, 0, low, high, 0.0, 0.0
        sum_, square = _sums(values[start : start + BLOCK])
        zeros += int(zero)
        total += sum_
        squares += square
        low = least if least < low else low  # noqa: FURB136
        high = most if most > high else high  # noqa: FURB136
    return True, zeros, low, high, total, squares


INF32, SIGN32, MAGNITUDE32, NONE32, ONE32 = map(np.int32, (0xFF << 23, 31, (1 << 31) - 1, 0, 1))
INF64, SIGN64, MAGNITUDE64, NONE64, ONE64 = map(np.int64, (0x7FF << 52, 63, (1 << 63) - 1, 0, 1))


@compiled
def measure32(values: Array, bits: Array) -> tuple[bool, int, Any, Any, float, float]:
    return _measure(values, bits, INF32, SIGN32, MAGNITUDE32, NONE32, ONE32)


@compiled
def measure64(values: Array, bits: Array) -> tuple[bool, int, Any, Any, float, float]:
    return _measure(values, bits, INF64, SIGN64, MAGNITUDE64, NONE64, ONE64)


def measured(flat: Array) -> tuple[bool, int, float, float, float, float]:
    """Whether all is finite; how many zeros; least, greatest, sum, sum of squares.

    `flat` is contiguous, of float32 or float64.
    """
    if flat.dtype.itemsize == 4:
        finite, zero, low, high, total, squares = measure32(flat, flat.view(np.int32))
        return finite, zero, _number(low, "<i", "<f"), _number(high, "<i", "<f"), total, squares
    finite, zero, low, high, total, squares = measure64(flat, flat.view(np.int64))
    return finite, zero, _number(low, "<q", "<d"), _number(high, "<q", "<d"), total, squares


def _number(key: int, integer: str, real: str) -> float:
    """The number that an integer in order stands for."""
    width = 31 if integer == "<i" else 63
    bits = key if key >= 0 else key ^ ((1 << width) - 1)
    return float(unpack(real, pack(integer, bits))[0])


def warm() -> None:
    """Call every kernel of this file once for each dtype it is for."""
    for kind in (np.float32, np.float64):
        values = np.ones(BLOCK + 1, kind)
        measured(values)
        values.flags.writeable = False  # as recorders see some
        measured(values)
