"""Special functions that NumPy lacks: the error function's family and the gamma function's.

float64 results are within a few units in the last place; float32 ones are computed in float64 and
rounded once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import numpy as np

from gradscope.runtime.core.kernels.support import LARGE, Array, elementwise, fast, horner

# erf(x) / x as a fraction of polynomials in x², relative error below 2.1e-9 for |x| <= 4 (beyond,
# erf is 1 in float32). Fitted for gradscope: Lawson's iteration on 120 Chebyshev points.
ERF_NUMERATOR: Final = (
    -1.31961108380543384e-8,
    4.68348892678003039e-6,
    0.000379566750921640392,
    0.00384976720091824653,
    0.0543167983130609435,
    0.185210522757154382,
    1.12837916938750886,
)
ERF_DENOMINATOR: Final = (
    0.0000630983691466593619,
    0.00130754452226474855,
    0.0154622610063224435,
    0.11396047514195647,
    0.497471965684916175,
    1.0,
)

# ζ(k) - 1 for k = 2 to 28
_ZETA_LESS_ONE: Final = (
    0.6449340668482264,
    0.2020569031595943,
    0.08232323371113819,
    0.03692775514336993,
    0.01734306198444914,
    0.008349277381922827,
    0.00407735619794434,
    0.0020083928260822143,
    0.0009945751278180853,
    0.0004941886041194645,
    0.0002460865533080483,
    0.00012271334757848915,
    6.124813505870483e-05,
    3.058823630702049e-05,
    1.528225940865187e-05,
    7.637197637899763e-06,
    3.81729326499984e-06,
    1.908212716553939e-06,
    9.539620338727962e-07,
    4.769329867878064e-07,
    2.38450502727733e-07,
    1.1921992596531106e-07,
    5.960818905125948e-08,
    2.980350351465228e-08,
    1.4901554828365043e-08,
    7.45071178983543e-09,
    3.725334024788457e-09,
)
_EULER_GAMMA: Final = 0.5772156649015329
_BERNOULLI: Final = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)

# lgamma(2 + z) / z, highest power first
_LGAMMA_AROUND_TWO: Final = (
    *((-1) ** k * zeta / k for k, zeta in reversed(list(enumerate(_ZETA_LESS_ONE, 2)))),
    1.0 - _EULER_GAMMA,
)
# Corrections of Stirling's formulas, as polynomials in 1/x²; times 1/x for lgamma, 1/x² for digamma
_STIRLING_LGAMMA: Final = tuple(
    b / (2 * k * (2 * k - 1)) for k, b in reversed(list(enumerate(_BERNOULLI, 1)))
)
_STIRLING_DIGAMMA: Final = tuple(b / (2 * k) for k, b in reversed(list(enumerate(_BERNOULLI, 1))))


@elementwise
def erf(x: Array) -> Array:
    """Return the error function."""
    large = x.size >= LARGE
    if x.dtype == np.float32 and x.size > FEW:
        return fast().erf_float32(x) if large else _erf_float32(x)
    return fast().erf_float64(x) if large else _each(math.erf, x).astype(x.dtype, copy=False)


FEW: Final = 128  # for fewer elements the C library, called for each, is faster
FOUR, MINUS_FOUR = np.array(4.0, np.float32), np.array(-4.0, np.float32)


def _erf_float32(x: Array) -> Array:
    clipped = np.minimum(np.maximum(x, MINUS_FOUR), FOUR).astype(np.float64)
    square = clipped * clipped
    quotient = horner(square, ERF_NUMERATOR) / horner(square, ERF_DENOMINATOR)
    return np.asarray(clipped * quotient).astype(np.float32)


@elementwise
def erfc(x: Array) -> Array:
    """Return 1 - erf(x), accurate where that is tiny."""
    values = fast().erfc_float64(x) if x.size >= LARGE else _each(math.erfc, x)
    return values.astype(x.dtype)


@elementwise
def erfinv(x: Array) -> Array:
    """Return the inverse of erf: infinite at ±1, NaN beyond."""
    y = np.abs(x.astype(np.float64))
    root = _erfinv_start(y)
    for _ in range(3):  # Halley's steps treble the correct digits; near ±1 there may be one
        excess = np.where(y < 0.5, erf(root) - y, (1.0 - y) - erfc(root))
        step = excess * np.exp(root * root) * (math.sqrt(math.pi) / 2)
        root = root - step / (1.0 + root * step)
    root = np.where(y < 1.0, root, np.where(y == 1.0, np.inf, np.nan))
    return np.copysign(root, x).astype(x.dtype)


def _erfinv_start(y: Array) -> Array:
    """Return a rough erfinv(y): Winitzki's formula, a series where that cancels."""
    series = y * (math.sqrt(math.pi) / 2) * (1.0 + y * y * (math.pi / 12))
    log = np.log1p(-y * y)
    middle = 2 / (math.pi * 0.147) + log / 2
    formula = np.sqrt(np.sqrt(middle * middle - log / 0.147) - middle)
    return np.where(y < 0.1, series, np.where(y < 1.0, formula, 0.0))


@elementwise
def lgamma(x: Array) -> Array:
    """Return the logarithm of the absolute value of the gamma function."""
    wide = x.astype(np.float64)
    mirrored = wide < -0.5
    result = _lgamma_from_half(np.where(mirrored, 1.0 - wide, np.where(wide < 0.5, 1.0, wide)))
    reflected = math.log(math.pi) - np.log(np.abs(_sin_pi(wide))) - result
    around_zero = _lgamma_of_one_plus(np.clip(wide, -0.5, 0.5)) - np.log(np.abs(wide))
    result = np.where(mirrored, reflected, np.where(wide < 0.5, around_zero, result))
    pole = (wide <= 0.0) & (wide == np.floor(wide))
    return np.where(pole | np.isinf(wide), np.inf, result).astype(x.dtype)


def _lgamma_of_one_plus(z: Array) -> Array:
    return z * horner(z, _LGAMMA_AROUND_TWO) - np.log1p(z)


def _lgamma_from_half(x: Array) -> Array:
    """Return lgamma for x >= 0.5: a series around 2, Stirling's formula above 10."""
    near = np.minimum(x, 10.0)
    steps = np.clip(np.floor(near - 1.5), 0.0, 8.0)
    base = near - steps  # in [0.5, 2.5)
    factor = np.ones_like(base)
    for step in range(8):
        factor = np.where(step < steps, factor * (base + step), factor)
    around_two = (base - 2.0) * horner(base - 2.0, _LGAMMA_AROUND_TWO)
    series = np.where(base < 1.5, _lgamma_of_one_plus(base - 1.0), around_two) + np.log(factor)
    far = np.maximum(x, 10.0)
    reciprocal = 1.0 / far
    stirling = (far - 0.5) * (np.log(far) - 1.0) + (0.5 * math.log(2 * math.pi) - 0.5)
    stirling = stirling + reciprocal * horner(reciprocal * reciprocal, _STIRLING_LGAMMA)
    return np.where(x < 10.0, series, stirling)


@elementwise
def digamma(x: Array) -> Array:
    """Return the derivative of lgamma: infinite at zero, NaN at negative integers."""
    wide = x.astype(np.float64)
    positive = np.where(wide < 0.0, 1.0 - wide, wide)
    result = np.zeros_like(positive)
    for _ in range(10):
        low = positive < 10.0
        result = np.where(low, result - 1.0 / positive, result)
        positive = np.where(low, positive + 1.0, positive)
    reciprocal = 1.0 / positive
    square = reciprocal * reciprocal
    tail = np.log(positive) - 0.5 * reciprocal - square * horner(square, _STIRLING_DIGAMMA)
    result = result + np.where(np.isinf(positive), positive, tail)
    cotangent = math.pi / np.tan(math.pi * (wide - np.round(wide)))
    result = np.where(wide < 0.0, result - cotangent, result)
    pole = np.where(wide == 0.0, np.copysign(np.inf, -wide), np.nan)
    return np.where((wide <= 0.0) & (wide == np.floor(wide)), pole, result).astype(x.dtype)


@elementwise
def polygamma(x: Array, n: int) -> Array:
    """Return the n-th derivative of digamma."""
    if n == 0:
        return digamma(x)
    wide = x.astype(np.float64)
    if n > 1:
        sign = 1.0 if n % 2 else -1.0
        return (sign * math.factorial(n) * _hurwitz_zeta(n + 1, wide)).astype(x.dtype)
    negative = wide < 0.5
    result = _hurwitz_zeta(2, np.where(negative, 1.0 - wide, wide))
    # As in PyTorch, whose poles are finite because the sine of pi is inexact.
    sine = np.sin(x * np.asarray(math.pi, x.dtype)).astype(np.float64)
    reflected = (math.pi / sine) ** 2 - result
    return np.where(negative, reflected, result).astype(x.dtype)


def _hurwitz_zeta(s: int, x: Array) -> Array:
    """Return the sum of (x + k)**-s over all k >= 0, by Euler and Maclaurin's formula."""
    terms = 12
    total = np.zeros_like(x)
    for k in range(terms):
        total += (x + k) ** -s
    far = x + terms
    total += far ** (1 - s) / (s - 1) + 0.5 * far**-s
    rising = float(s)
    for k, bernoulli in enumerate(_BERNOULLI, 1):
        total += bernoulli / math.factorial(2 * k) * rising * far ** (1 - s - 2 * k)
        rising *= (s + 2 * k - 1) * (s + 2 * k)
    return np.where((x <= 0.0) & (x == np.floor(x)), np.inf, total)


def _sin_pi(x: Array) -> Array:
    """Return sin(πx) with x reduced first, so that it is zero at every integer."""
    nearest = np.round(x)
    sign = np.where(np.mod(nearest, 2.0) == 0.0, 1.0, -1.0)
    return np.asarray(sign * np.sin(math.pi * (x - nearest)))


def _each(function: Callable[[float], float], x: Array) -> Array:
    """Apply a function of the C library, which is fastest for few elements."""
    flat = x.ravel().tolist()
    return np.fromiter(map(function, flat), np.float64, x.size).reshape(x.shape)
