"""Random numbers as PyTorch derives them from random words on the CPU: uniform, normal and others.

Everything here depends on the words alone; runtime/core/state/generator.py draws them.

# Note [The same last bit]
PyTorch's kernels are compiled with fused multiply-add: `a * b + c` is rounded once. To get the same
last bit, the products and sums that its compiler fuses are fused here too, by a wider dtype
(float32) or the product's exact error (float64). Logarithms and cosines of float64 come from the C
library, as PyTorch's do; those of float32 from the polynomials of its vectorized code on machines
with AVX2 or better (Cephes' logf, sinf and cosf).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import ml_dtypes
import numpy as np

from gradscope.runtime.core.kernels.support import HALVES, LARGE, Array, fast

FLOAT32: Final = np.dtype(np.float32)
FLOAT64: Final = np.dtype(np.float64)
LANES: Final = 8  # of PyTorch's vectors; a block is a vector of radii and one of angles
BLOCK: Final = 2 * LANES


def _float32s(*numbers: float) -> tuple[np.float64, ...]:
    """Round numbers to float32, stored as float64, so that products are float64."""
    return tuple(np.float64(np.float32(number)) for number in numbers)


LOG_COEFFICIENTS: Final = _float32s(
    7.0376836292e-2,
    -1.1514610310e-1,
    1.1676998740e-1,
    -1.2420140846e-1,
    1.4249322787e-1,
    -1.6668057665e-1,
    2.0000714765e-1,
    -2.4999993993e-1,
    3.3333331174e-1,
)
LOG_TWO: Final = _float32s(-2.12194440e-4, 0.693359375)  # in a small and a short part
SIN_COEFFICIENTS: Final = _float32s(-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1)
COS_COEFFICIENTS: Final = _float32s(
    2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2
)
QUARTER_PI: Final = _float32s(-0.78515625, -2.4187564849853515625e-4, -3.77489497744594108e-8)


def unit_float32(words: Array) -> Array:
    """Return numbers in [0, 1): the low 24 bits of each word."""
    return (words & np.uint64((1 << 24) - 1)).astype(np.float32) * np.float32(2.0**-24)


def unit_float64(words: Array) -> Array:
    """Return numbers in [0, 1): the low 53 bits of each pair of words."""
    return (pairs(words) & np.uint64((1 << 53) - 1)).astype(np.float64) * 2.0**-53


def pairs(words: Array) -> Array:
    """Return 64-bit words, each made of two 32-bit ones, the first one high."""
    return np.asarray((words[0::2] << np.uint64(32)) | words[1::2])


HUGE: Final = 2.0**960
"""Larger numbers cannot be split without overflow."""


def between(unit: Array, low: float, high: float, dtype: np.dtype[Any]) -> Array:
    """Map [0, 1) to [low, high). A half that would round to `high` becomes `low`."""
    if dtype == FLOAT64:
        if (low, high) == (0.0, 1.0):
            return unit
        if high - low < HUGE:
            return fused64(unit, high - low, low)
        return fused64(unit, math.ldexp(high - low, -64), math.ldexp(low, -64)) * 2.0**64
    start, end = np.float32(low), np.float32(high)
    spread = unit
    if (low, high) != (0.0, 1.0):
        spread = fused32(unit, np.float64(end - start), start)
    if dtype not in HALVES:
        return spread
    narrow = spread.astype(dtype)
    return np.where(narrow == end.astype(dtype), start.astype(dtype), narrow)


def fused32(a: Array, b: Any, c: Any) -> Array:
    """Return a * b + c of float32 numbers, rounded once: `b` is widened, the product exact."""
    return np.asarray(a * b + c).astype(np.float32)


def _polynomial32(x: Array, coefficients: tuple[np.float64, ...]) -> Array:
    """Evaluate a polynomial of widened numbers, highest power first, with fused steps."""
    y = fused32(x, coefficients[0], coefficients[1])
    for coefficient in coefficients[2:]:
        y = fused32(y, x, coefficient)
    return y


def fused64(a: Array, b: float, c: float) -> Array:
    """Return a * b + c of float64 numbers, rounded once: Dekker's product, Knuth's sum."""
    product = a * b
    a_high, a_low = _halves(a)
    b_high, b_low = _halves(np.float64(b))
    error = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
    total = product + c
    part = total - product
    rest = (product - (total - part)) + (c - part)
    return np.asarray(total + (rest + error))


def _halves(x: Any) -> tuple[Any, Any]:
    """Split float64 numbers into two of 26 bits each."""
    scaled = x * 134217729.0
    high = scaled - (scaled - x)
    return high, x - high


def each(function: Callable[[float], float], x: Array) -> Array:
    """Apply a function of the C library to each float64 number."""
    return np.fromiter(map(function, x.ravel().tolist()), np.float64, x.size).reshape(x.shape)


def normal_pairs(unit: Array) -> Array:
    """Return as many normal numbers as uniform ones, in pairs: PyTorch's way for few numbers."""
    angle = 2.0 * math.pi * unit[0::2]
    radius = np.sqrt(-2.0 * each(math.log1p, -unit[1::2]))
    result = np.empty_like(unit)
    result[0::2] = radius * each(math.cos, angle)
    result[1::2] = radius * each(math.sin, angle)
    return result


def normal_blocks(unit: Array, *, many: bool = False) -> Array:
    """Transform uniform numbers to normal ones in place, in blocks: PyTorch's way for many numbers.

    These may be a part of `many`.
    """
    if many or unit.size >= LARGE:
        return np.asarray(fast().normal_blocks(unit))
    return plain_normal_blocks(unit)


def plain_normal_blocks(unit: Array) -> Array:
    if unit.dtype == FLOAT32:
        return _box_muller(unit, _log_float32, _cos_sin_float32)
    return _box_muller(unit, lambda x: each(math.log, x), _cos_sin_float64)


def _box_muller(
    unit: Array, log: Callable[[Array], Array], cos_sin: Callable[[Array], tuple[Array, Array]]
) -> Array:
    blocks = unit.reshape(-1, 2, LANES)
    one = unit.dtype.type(1.0)
    radius = np.sqrt(unit.dtype.type(-2.0) * log(one - blocks[:, 0]))
    cos, sin = cos_sin(unit.dtype.type(2.0 * math.pi) * blocks[:, 1])
    return np.stack([radius * cos, radius * sin], axis=1).reshape(-1)


def _cos_sin_float64(angle: Array) -> tuple[Array, Array]:
    return each(math.cos, angle), each(math.sin, angle)


def _log_float32(x: Array) -> Array:
    bits = x.view(np.int32)
    exponent = ((bits >> 23) - 126).astype(np.float32)
    mantissa = ((bits & np.int32(0x007FFFFF)) | np.int32(0x3F000000)).view(np.float32)
    low = mantissa < np.float32(math.sqrt(0.5))
    exponent -= low
    t = (mantissa - np.float32(1.0)) + np.where(low, mantissa, np.float32(0.0))
    square = t * t
    wide = t.astype(np.float64)
    y = _polynomial32(wide, LOG_COEFFICIENTS) * t
    y = fused32(y, square.astype(np.float64), exponent * np.float32(LOG_TWO[0]))
    y -= square * np.float32(0.5)
    return fused32(exponent, LOG_TWO[1], t + y)


def _cos_sin_float32(angle: Array) -> tuple[Array, Array]:
    """Return cosine and sine of angles that are not negative."""
    octant = (angle * np.float32(4.0 / math.pi)).astype(np.int32) + 1 & -2
    x = angle
    for part in QUARTER_PI:
        x = fused32(octant, part, x)
    square = x * x
    wide = square.astype(np.float64)
    cos = _polynomial32(wide, COS_COEFFICIENTS) * square
    cos = np.asarray(fused32(cos, wide, square * np.float32(-0.5)) + np.float32(1.0))
    sin = _polynomial32(wide, SIN_COEFFICIENTS) * square
    sin = fused32(sin, x.astype(np.float64), x)
    swapped = (octant & 2) != 0
    cos, sin = np.where(swapped, sin, cos), np.where(swapped, cos, sin)
    cos = np.where(((octant + 2) & 4) != 0, -cos, cos)
    return cos, np.where((octant & 4) != 0, -sin, sin)


def exponential(unit: Array, rate: float, dtype: np.dtype[Any]) -> Array:
    """Return exponential numbers of this rate."""
    if dtype != FLOAT64:
        log = np.log1p(-unit)  # the last bit of float64 does not matter
    elif unit.size >= LARGE:
        log = fast().log1p_float64(-unit)
    else:
        log = each(math.log1p, -unit)
    return rounded(-1.0 / rate * log, dtype)


def rounded(values: Array, dtype: np.dtype[Any]) -> Array:
    """Return values in a dtype; halves by way of float32, as in PyTorch."""
    if dtype in HALVES:
        values = values.astype(np.float32, copy=False)
    return values.astype(dtype, copy=False)


def permutation(words: Array, count: int) -> Array:
    """Return 0 to count - 1 shuffled by Fisher and Yates; one word per swap."""
    if count < 2:
        return np.arange(count)
    offsets = words % np.arange(count, 1, -1, dtype=np.uint64)
    others = (offsets + np.arange(count - 1, dtype=np.uint64)).astype(np.int64)
    if count >= LARGE:
        order = np.arange(count)
        fast().swap_forward(order, others)
        return order
    shuffled = list(range(count))
    for place, other in enumerate(others.tolist()):
        shuffled[place], shuffled[other] = shuffled[other], shuffled[place]
    return np.array(shuffled)


def draw_with_replacement(probabilities: Array, unit: Array) -> Array:
    """Return for each row of weights as many classes as its row of uniform numbers has."""
    if probabilities.dtype in HALVES:
        probabilities = probabilities.astype(np.float32)
    sums = np.add.accumulate(probabilities, axis=1, dtype=probabilities.dtype)
    shares = (sums / sums[:, -1:]).astype(np.float64)
    shares[:, -1] = 1.0
    rows = [np.searchsorted(share, row) for share, row in zip(shares, unit, strict=True)]
    return np.stack(rows).astype(np.int64)


def draw_without_replacement(probabilities: Array, waits: Array, count: int) -> Array:
    """Return the classes with the shortest exponential waiting times, which depend on weights."""
    with np.errstate(divide="ignore", over="ignore"):
        speed = (probabilities / waits).astype(probabilities.dtype)
    if count == 1:
        return np.asarray(np.argmax(speed, axis=-1, keepdims=True))
    return np.asarray(np.argsort(-speed, axis=-1, kind="stable")[..., :count])


def scaled(values: Array, mean: float, std: float) -> Array:
    """Return values * std + mean, fused."""
    if (mean, std) == (0.0, 1.0):
        return values
    if values.dtype == FLOAT32:
        return fused32(values, *_float32s(std, mean))
    return fused64(values, std, mean)


def within_dtype(words: Array, dtype: np.dtype[Any]) -> Array:
    """Map words to the integers from zero up that the dtype represents exactly."""
    if dtype.kind == "b":
        return (words & np.uint64(1)).astype(dtype)
    if dtype.kind in "iu":
        limit = int(np.iinfo(dtype).max)
    else:
        limit = 1 << (ml_dtypes.finfo(dtype).nmant + 1)
    if limit < (1 << 64) - 1:
        words = words % np.uint64(limit + 1)
    return words.astype(dtype)


def real_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype of a complex number's parts."""
    return np.dtype(f"f{dtype.itemsize // 2}")
