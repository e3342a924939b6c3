"""Modified Bessel functions and related ones: I and K of order 0 and 1, Airy's Ai.

Near zero they are means over a circle, which the trapezoidal rule computes to the last digits; far
from it, Hankel's series.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any, Final

import numpy as np

from gradscope.runtime.core.kernels.support import Array, elementwise

FAR: Final = 30.0
"""From here on Hankel's series reaches double precision before its terms grow."""


@cache
def _circle(points: int) -> Array:
    """Angles of half a circle for the trapezoidal rule, with its ends."""
    return np.linspace(0.0, math.pi, points + 1)


def _mean(values: Callable[[float], Array], points: int) -> Array:
    """Return the mean of a function over half a circle; it is symmetric on the other half."""
    angles = _circle(points)
    total = (values(float(angles[0])) + values(float(angles[-1]))) / 2
    for angle in angles[1:-1]:
        total = total + values(float(angle))
    return total / points


@cache
def _hankel(order: int, terms: int) -> tuple[float, ...]:
    """Coefficients of 1/x**k in Hankel's series."""
    made = [1.0]
    for k in range(1, terms):
        made.append(made[-1] * (4 * order * order - (2 * k - 1) ** 2) / (8 * k))
    return tuple(made)


def _series(x: Array, order: int, signs: Callable[[int], float]) -> Array:
    """Return the sum of Hankel's terms with signs, as long as they shrink for x >= FAR."""
    total, power = np.zeros_like(x), np.ones_like(x)
    for k, coefficient in enumerate(_hankel(order, 28)):
        total = total + signs(k) * coefficient * power
        power = power / x
    return total


def _wide(function: Callable[..., Array]) -> Callable[..., Array]:
    """Compute in double precision, round once."""

    def kernel(x: Array) -> Array:
        return function(x.astype(np.float64)).astype(x.dtype)

    kernel.__name__, kernel.__doc__ = function.__name__, function.__doc__
    return elementwise(kernel)


def _power_series(x: Array) -> Array:
    """Return I1 of small numbers with relative accuracy."""
    square, term = x * x / 4, x / 2
    total = term
    for k in range(1, 16):
        term = term * square / (k * (k + 1))
        total = total + term
    return np.asarray(total)


def _scaled_i(x: Array, order: int) -> Array:
    """Return I of |x| times exp(-|x|)."""
    size = np.abs(x)
    near = np.minimum(size, FAR)
    inner = _mean(lambda t: np.exp(near * (math.cos(t) - 1.0)) * math.cos(order * t), 64)
    far = np.maximum(size, FAR)
    outer = _series(far, order, lambda k: (-1.0) ** k) / np.sqrt(2 * math.pi * far)
    made = np.where(size < FAR, inner, outer)
    if order:
        small = np.minimum(size, 1.0)
        made = np.where(size < 1.0, _power_series(small) * np.exp(-small), made)
    return np.where(np.isnan(x), x, np.where(np.isinf(size), 0.0, made))


@_wide
def i0(x: Array) -> Array:
    """Return the modified Bessel function of the first kind, of order 0."""
    size = np.abs(x)
    return np.exp(size) * _scaled_i(x, 0)


@_wide
def i0e(x: Array) -> Array:
    return _scaled_i(x, 0)


@_wide
def i1(x: Array) -> Array:
    size = np.abs(x)
    return np.sign(x) * np.exp(size) * _scaled_i(x, 1)


@_wide
def i1e(x: Array) -> Array:
    return np.sign(x) * _scaled_i(x, 1)


def _scaled_k(x: Array, order: int) -> Array:
    """Return K times exp(x): the integral of exp(-x (cosh t - 1)) cosh(order t) over t >= 0."""
    reach = np.arccosh(1.0 + 750.0 / np.clip(x, 1e-300, None))
    step = reach / 400
    total = np.full_like(x, 0.5)
    for k in range(1, 401):
        t = k * step
        total = total + np.exp(-x * (np.cosh(t) - 1.0)) * np.cosh(order * t)
    made = total * step
    return np.where(x == 0, np.inf, np.where(x < 0, np.nan, np.where(np.isinf(x), 0.0, made)))


@_wide
def k0(x: Array) -> Array:
    return np.exp(-x) * _scaled_k(x, 0)


@_wide
def k1(x: Array) -> Array:
    return np.exp(-x) * _scaled_k(x, 1)


@_wide
def k0e(x: Array) -> Array:
    return _scaled_k(x, 0)


@_wide
def k1e(x: Array) -> Array:
    return _scaled_k(x, 1)


@_wide
def spherical_j0(x: Array) -> Array:
    """Return sin(x) / x."""
    made = np.sinc(x / math.pi)
    return np.where(np.isinf(x), 0.0, made)


@_wide
def airy_ai(x: Array) -> Array:
    """Return Airy's function: power series near zero, integral for large x, phase for negative."""
    middle = _airy_series(np.clip(x, -7.0, 1.0))
    right = np.maximum(x, 1.0)
    root = np.sqrt(right)
    reach = 6.5 / np.sqrt(root)
    step = reach / 200
    total = np.full_like(right, 0.5)
    for k in range(1, 201):
        t = k * step
        total = total + np.cos(t**3 / 3) * np.exp(-root * t * t)
    decaying = total * step / math.pi * np.exp(-2 / 3 * right * root)
    left = np.maximum(-x, 7.0)
    turning = _airy_left(left)
    return np.where(x > 1, decaying, np.where(x < -7, turning, middle))


def _airy_series(x: Array) -> Any:
    first, second = np.ones_like(x), x.copy()
    f, g = first, second
    for k in range(1, 60):
        first = first * x**3 / ((3 * k - 1) * (3 * k))
        second = second * x**3 / ((3 * k) * (3 * k + 1))
        f, g = f + first, g + second
    return 0.3550280538878172 * f - 0.2588194037928068 * g


def _airy_left(x: Array) -> Array:
    zeta = 2 / 3 * x * np.sqrt(x)
    coefficient, even, odd = 1.0, np.zeros_like(x), np.zeros_like(x)
    for k in range(14):
        term = coefficient / zeta**k
        if k % 2:
            odd = odd + (-1.0) ** (k // 2) * term
        else:
            even = even + (-1.0) ** (k // 2) * term
        coefficient *= (6 * k + 5) * (6 * k + 3) * (6 * k + 1) / (216 * (k + 1) * (2 * k + 1))
    phase = zeta - math.pi / 4
    scale = 1 / (math.sqrt(math.pi) * np.sqrt(np.sqrt(x)))
    return scale * (np.cos(phase) * even + np.sin(phase) * odd)
