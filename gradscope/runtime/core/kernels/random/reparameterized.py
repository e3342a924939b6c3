"""Derivatives of samples by their parameters: of gamma and Dirichlet numbers.

The derivative of a sample x of a distribution F(x; a) is minus the derivative of F by a, over the
density. It has no closed form. PyTorch approximates it by region (a power series near the ends, a
saddle point expansion for large parameters, a fitted quotient of polynomials between them;
Jankowiak and Obermeyer, 2018), and so does this, with its coefficients.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from gradscope.runtime.core.kernels.special.special import digamma
from gradscope.runtime.core.kernels.support import Array, quiet

GAMMA_TOP: Final = np.array([
    [0.16009398, -0.094634809, 0.025146376, -0.0030648343],
    [0.53487893, 0.1298071, 0.065735949, -0.0015649758],
    [0.040121004, -0.0065914022, -0.0026286047, -0.0013441777],
])  # fmt: skip
GAMMA_BOTTOM: Final = np.array([
    [1, 0.32668115, 0.10406089, 0.0014179084],
    [0.16639465, 0.020070113, -0.0035938915, -0.00058392623],
    [0.017050642, -0.0021309326, 0.00085092367, -1.5247877e-07],
])  # fmt: skip
BETA_TOP: Final = np.array([
    1.003668233, -0.01061107488, -0.0657888334, 0.01201642863,
    0.6336835991, -0.3557432599, 0.05486251648, -0.001465281033,
    -0.03276231906, 0.004474107445, 0.002429354597, -0.0001557569013,
    0.221950385, -0.3187676331, 0.01799915743, 0.01074823814,
    -0.2951249643, 0.06219954479, 0.01535556598, 0.001550077057,
    0.02155310298, 0.004170831599, 0.001292462449, 6.976601077e-05,
    -0.05980841433, 0.008441916499, 0.01085618172, 0.002319392565,
    0.02911413504, 0.01400243777, -0.002721828457, 0.000751041181,
    0.005900514878, -0.001936558688, -9.495446725e-06, 5.385558597e-05,
]).reshape(3, 3, 4)  # fmt: skip
BETA_BOTTOM: Final = np.array([
    1, -0.02924021934, -0.04438342661, 0.007285809825,
    0.6357567472, -0.3473456711, 0.05454656494, -0.002407477521,
    -0.03301322327, 0.004845219414, 0.00231480583, -0.0002307248149,
    0.5925320577, -0.1757678135, 0.01505928619, 0.000564515273,
    0.1014815858, -0.06589186703, 0.01272886114, -0.0007316646956,
    -0.007258481865, 0.001096195486, 0.0003934994223, -4.12701925e-05,
    0.06469649321, -0.0236701437, 0.002902096474, -5.896963079e-05,
    0.001925008108, -0.002869809258, 0.0008000589141, -6.063713228e-05,
    -0.0003477407336, 6.959756487e-05, 1.097287507e-05, -1.650964693e-06,
]).reshape(3, 3, 4)  # fmt: skip

Region = tuple[Array, Callable[..., Array]]


@quiet
def standard_gamma_grad(shape: Array, sample: Array) -> Array:
    """Return the derivatives of gamma samples by their shapes."""
    a, x = np.broadcast_arrays(shape.astype(np.float64), sample.astype(np.float64))
    small = x < 0.8
    large = ~small & (a > 8.0)
    near = large & (np.abs(x - a) <= 0.1 * a)
    regions = [
        (small, _gamma_small),
        (near, _gamma_near_mean),
        (large & ~near, _gamma_saddle),
        (~small & ~large, _gamma_fitted),
    ]
    return _by_region(regions, a, x).astype(sample.dtype)


def _by_region(regions: list[Region], *arrays: Array) -> Array:
    made = np.empty(arrays[0].shape)
    for where, formula in regions:
        if np.any(where):
            made[where] = formula(*(array[where] for array in arrays))
    return made


def _gamma_small(a: Array, x: Array) -> Array:
    """The power series of the incomplete gamma function, and its derivative, term by term."""
    term, total, slope = np.ones_like(x), 1 / a, 1 / a**2
    for k in range(1, 6):
        term = term * -x / k
        total = total + term / (a + k)
        slope = slope + term / (a + k) ** 2
    moved = ((np.log(x) - digamma(a)) * total - slope) * -x * np.exp(x)
    return np.where(np.isnan(moved), 0.0, moved)


def _gamma_near_mean(a: Array, x: Array) -> Array:
    """The saddle point expansion where its terms cancel, expanded again."""
    numerator = 1440 * a**2 + 6 * x * (53 - 120 * x) - 65 * x**2 / a + a * (107 + 3600 * x)
    return (1 + 24 * a * (1 + 12 * a)) * numerator / (1244160 * a**4)


def _gamma_saddle(a: Array, x: Array) -> Array:
    ratio = np.log(x / a)
    far = (x - a - a * ratio) ** -1.5
    pull = np.sqrt(8 * a) / (a - x) + np.where(x < a, -far, far)
    inner = ratio * pull - np.sqrt(2 / a) * (a + x) / (a - x) ** 2
    stirling = 1 + 1 / (12 * a) * (1 + 1 / (24 * a))
    return -stirling * x * inner / np.sqrt(8 * a)


def _gamma_fitted(a: Array, x: Array) -> Array:
    u, v = np.log(x / a), np.log(a)
    value = np.polynomial.polynomial.polyval2d
    return np.exp(value(u, v, GAMMA_TOP) / value(u, v, GAMMA_BOTTOM))


@quiet
def dirichlet_grad(sample: Array, concentration: Array, total: Array) -> Array:
    """Return derivatives of Dirichlet samples by their concentrations, over one minus the sample.

    Each is a beta sample of its concentration against the sum of the others.
    """
    wide = (each.astype(np.float64) for each in (sample, concentration, total))
    x, a, t = np.broadcast_arrays(*wide)
    b = t - a
    boundary = t * x * (1 - x)
    low = (x <= 0.5) & (boundary < 2.5)
    high = ~low & (x >= 0.5) & (boundary < 0.75)
    both = ~low & ~high & (a > 6) & (b > 6)
    mean = a / t
    near = both & (np.abs(x - mean) <= 0.1 * np.sqrt(a * b / (t + 1)) / t)
    regions = [
        (low, _beta_low),
        (high, _beta_high),
        (near, _beta_near_mean),
        (both & ~near, _beta_saddle),
        (~low & ~high & ~both, _beta_fitted),
    ]
    return _by_region(regions, x, a, b).astype(sample.dtype)


def _beta_low(x: Array, a: Array, b: Array) -> Array:
    """The power series of the incomplete beta function near 0, and its derivative, term by term."""
    factor = digamma(a) - digamma(a + b) - np.log(x)
    term, total = np.ones_like(x), (factor + 1 / a) / a
    for k in range(1, 11):
        term = term * (k - b) * x / k
        total = total + term * (factor + 1 / (a + k)) / (a + k)
    moved = x * (1 - x) ** -b * total
    return np.where(np.isnan(moved), 0.0, moved)


def _beta_high(x: Array, a: Array, b: Array) -> Array:
    """The same near 1, where the powers depend on the other parameter."""
    y = 1 - x
    factor = digamma(a + b) - digamma(a)
    term, power, slope, total = np.ones_like(y), np.ones_like(y), np.zeros_like(y), factor / b
    for k in range(1, 9):
        term = term * -y / k
        slope = slope * (a - k) + power
        power = power * (a - k)
        total = total + term / (b + k) * (slope + factor * power)
    moved = (1 - y) ** (1 - a) * total
    return np.where(np.isnan(moved), 0.0, moved)


def _beta_near_mean(x: Array, a: Array, b: Array) -> Array:
    """The saddle point expansion where its terms cancel, expanded again: in powers of a."""
    powers = (
        47 * x * b**4,
        (43 + 20 * (16 + 27 * b) * x) * b**3,
        3 * (59 + 180 * b - 90 * x) * b**2,
        (453 + 1620 * b * (1 - x) - 455 * x) * b,
        8 * (1 - x) * (135 * b - 11),
    )
    total = a + b
    polynomial = sum(power * a**k for k, power in enumerate(powers))
    scale = (1 + 12 * a) * (1 + 12 * b) / total**2
    return scale / (1 - x) * polynomial / (12960 * a**3 * b**2 * (1 + 12 * total))


def _stirling(a: Array) -> Array:
    return 1 + 1 / (12 * a) + 1 / (288 * a**2)


def _beta_saddle(x: Array, a: Array, b: Array) -> Array:
    total = a + b
    apart = a * (x - 1) + b * x
    first = (2 * a**2 + a * b) * (x - 1) - x * b**2
    first = first / (np.sqrt(2 * a / b) * total**1.5 * apart**2)
    ratio = np.log(a / (total * x))
    far = (b * np.log(b / (total * (1 - x))) + a * ratio) ** -1.5
    second = np.sqrt(8 * a * b / total) / apart + np.where(x < a / total, far, -far)
    stirling = _stirling(a) * _stirling(b) / _stirling(total)
    return stirling * -x / np.sqrt(2 * a * b / total) * (first + 0.5 * ratio * second)


def _beta_fitted(x: Array, a: Array, b: Array) -> Array:
    u = np.log(x)
    apart = np.log(a) - u
    rest = np.log(a + b) - apart
    value: Any = np.polynomial.polynomial.polyval3d
    quotient = value(u, apart, rest, BETA_TOP) / value(u, apart, rest, BETA_BOTTOM)
    return np.asarray(quotient * x * (digamma(a + b) - digamma(a)) / b)
