"""Hurwitz's zeta, the tails of the normal distribution, and products with logarithms."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from gradscope.runtime.core.kernels.special.special import erfc
from gradscope.runtime.core.kernels.support import HALVES, Array, elementwise, quiet

_BERNOULLI: Final = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)


def _both(a: Array, x: Array) -> tuple[Array, Array, np.dtype[np.float64]]:
    kind = a.dtype
    first, second = np.broadcast_arrays(a.astype(np.float64), x.astype(np.float64))
    return first, second, kind


@quiet
def zeta(s: Array, q: Array) -> Array:
    """Return the sum of (q + k)**-s over all k >= 0, by Euler and Maclaurin's formula."""
    power, first, kind = _both(s, q)
    terms = 12
    total = np.zeros(power.shape)
    for k in range(terms):
        total = total + (first + k) ** -power
    far = first + terms
    total = total + far ** (1 - power) / (power - 1) + 0.5 * far**-power
    rising = power.copy()
    for k, bernoulli in enumerate(_BERNOULLI, 1):
        total = total + bernoulli / math.factorial(2 * k) * rising * far ** (1 - power - 2 * k)
        rising = rising * (power + 2 * k - 1) * (power + 2 * k)
    pole = (first <= 0) & (first == np.floor(first))
    made = np.where(pole, np.inf, total)
    wrong = (power < 1) | ((first < 0) & ~pole & (power != np.floor(power)))
    return np.where(power == 1, np.inf, np.where(wrong, np.nan, made)).astype(kind)


@elementwise
def erfcx(x: Array) -> Array:
    """Return exp(x²) erfc(x), which decays like 1/x."""
    wide = x.astype(np.float64)
    near = np.clip(wide, -26.7, 6.0)
    inner = np.exp(near * near) * erfc(near)
    far = np.maximum(wide, 6.0)
    fraction = far
    for k in range(60, 0, -1):
        fraction = far + k / 2 / fraction
    outer = 1.0 / (math.sqrt(math.pi) * fraction)
    made = np.where(wide < 6.0, inner, outer)
    return np.where(wide < -26.7, np.inf, np.where(np.isnan(wide), wide, made)).astype(x.dtype)


@elementwise
def log_ndtr(x: Array) -> Array:
    """Return the logarithm of the share of a normal distribution below x."""
    wide = x.astype(np.float64)
    low = np.minimum(wide, -1.0)
    tail = np.log(erfcx(-low / math.sqrt(2)) / 2) - low * low / 2
    high = np.log1p(-erfc(np.maximum(wide, -1.0) / math.sqrt(2)) / 2)
    return np.where(wide < -1.0, tail, high).astype(x.dtype)


@elementwise
def ndtri(p: Array) -> Array:
    """Return the number below which this share of a normal distribution lies."""
    wide = p.astype(np.float64)
    tail = np.where(wide > 0.5, 1.0 - wide, wide)
    safe = np.clip(tail, 1e-320, 0.5)
    goal = np.log(safe)
    far = np.sqrt(np.maximum(-2 * goal, 0.0))
    root = -far + (np.log(np.maximum(far, 1e-3)) + 0.5 * math.log(2 * math.pi)) / np.maximum(far, 1)
    root = np.minimum(root, 0.0)
    for _ in range(12):  # Newton's steps on the logarithm, which is concave
        found = log_ndtr(root)
        slope = np.exp(-root * root / 2 - found) / math.sqrt(2 * math.pi)
        root = root - (found - goal) / slope
    made = np.where(wide > 0.5, -root, root)
    made = np.where(wide == 0, -np.inf, np.where(wide == 1, np.inf, made))
    return np.where((wide < 0) | (wide > 1), np.nan, made).astype(p.dtype)


@elementwise
def entr(x: Array) -> Array:
    """Return -x log(x)."""
    made = -x * np.log(x)
    made = np.where(x > 0, made, np.where(x == 0, x.dtype.type(0), x.dtype.type(-np.inf)))
    return np.where(np.isnan(x), x, made)


@quiet
def xlog1py(x: Array, y: Array) -> Array:
    """Return x * log1p(y), zero where x is zero unless y is NaN."""
    if x.dtype in HALVES:
        return xlog1py(x.astype(np.float32), y.astype(np.float32)).astype(x.dtype)
    product = np.asarray(x * np.log1p(y))
    return np.where((x == 0) & ~np.isnan(y), np.zeros((), product.dtype), product)
