"""Gamma, Poisson and binomial numbers by rejection, from the words of a generator.

# Note [Words taken one by one]
The number of random words for one number is known only when it is accepted. A draw gets more words
than it will probably need and returns how many it used; the generator continues after those. If
they do not suffice, it gets more and starts anew. The loops are plain Python; for large arrays the
same functions are compiled (fast_samplers.py).
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from gradscope.runtime.core.kernels.support import Array

# PyTorch writes these in single precision and computes with them in double.
THIRD: Final = float(np.float32(1.0) / np.float32(3.0))
SQUEEZE: Final = float(np.float32(0.0331))

TAILS: Final = np.array([
    0.0810614667953272, 0.0413406959554092, 0.0276779256849983, 0.02079067210376509,
    0.0166446911898211, 0.0138761288230707, 0.0118967099458917, 0.0104112652619720,
    0.00925546218271273, 0.00833056343336287,
])  # fmt: skip
"""Errors of Stirling's approximation of log k!, for small k."""


# State of a draw: [position among the numbers, whether a normal number is stored, that number]. The
# functions below take unit numbers of [0, 1), two words each, and that state.


def unit(units: Array, state: Array) -> Any:
    """The next number; NaN if there are no more."""
    place = int(state[0])
    state[0] = place + 1
    return units[place] if place < units.size else math.nan


def ran_out(units: Array, state: Array) -> Any:
    """Mark that there were not enough numbers; returns NaN."""
    state[0] = units.size + 1
    return math.nan


def normal(units: Array, state: Array) -> Any:
    """The next normal number. They come in pairs."""
    if state[1] != 0:
        state[1] = 0
        return state[2]
    first, second = unit(units, state), unit(units, state)
    radius = math.sqrt(-2.0 * math.log1p(-second))
    angle = 2.0 * math.pi * first
    state[1] = 1
    state[2] = radius * math.sin(angle)
    return radius * math.cos(angle)


def gamma_one(boost: Any, middle: Any, units: Array, state: Array) -> Any:
    """Marsaglia and Tsang's method, by the cube of a normal number; NaN without enough numbers.

    For a shape less than one, shape + 1 is drawn, and multiplied by `boost`, a power of a unit
    number. `middle` is the shape minus a third; negative for a shape of zero.
    """
    if not middle >= 0.0:
        return math.nan if math.isnan(middle) else 0.0
    scale = (1.0 - unit(units, state)) ** boost if boost > 0.0 else 1.0
    spread = 1.0 / math.sqrt(9.0 * middle)
    while int(state[0]) <= units.size:
        x = normal(units, state)
        root = 1.0 + spread * x
        if root <= 0.0:
            continue
        cube = root * root * root
        u = 1.0 - unit(units, state)
        square = x * x
        if u < 1.0 - SQUEEZE * square * square:
            return scale * middle * cube
        if u > 0.0 and math.log(u) < 0.5 * square + middle * (1.0 - cube + math.log(cube)):
            return scale * middle * cube
    return math.nan


def gamma_constants(shapes: Array) -> tuple[Array, Array]:
    """Return the powers and middles of shapes, in their own precision, as in PyTorch."""
    one = shapes.dtype.type
    small = shapes < 1
    with np.errstate(divide="ignore"):
        boost = np.where(small, one(1) / shapes, one(0))
    middle = np.where(small, shapes + one(1), shapes) - one(THIRD)
    return np.where(shapes == 0, one(0), boost), np.where(shapes == 0, one(-1), middle)


def poisson_one(rate: Any, units: Array, state: Array) -> Any:
    """By counting for small rates, by Hörmann's transformed rejection for large ones."""
    if rate == 0:
        return 0.0
    if rate < 10:
        bound, product, count = math.exp(-rate), 1.0, 0.0
        while int(state[0]) < units.size:
            product *= unit(units, state)
            if product <= bound:
                return count
            count += 1.0
        return ran_out(units, state)
    b = 0.931 + 2.53 * math.sqrt(rate)
    a = -0.059 + 0.02483 * b
    tail = math.log(1.1239 + 1.1328 / (b - 3.4))
    inside = 0.9277 - 3.6224 / (b - 2)
    log_rate = math.log(rate)
    while int(state[0]) + 2 <= units.size:
        u, v = unit(units, state) - 0.5, unit(units, state)
        us = 0.5 - abs(u)
        k = math.floor((2 * a / us + b) * u + rate + 0.43)
        if us >= 0.07 and v <= inside:
            return float(k)
        if k < 0 or (us < 0.013 and v > us):
            continue
        left = math.log(v) + tail - math.log(a / (us * us) + b)
        if left <= -rate + k * log_rate - math.lgamma(k + 1.0):
            return float(k)
    return ran_out(units, state)


def stirling_tail(k: Any) -> Any:
    if k <= 9:
        return TAILS[int(k)]
    square = (k + 1.0) * (k + 1.0)
    return (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / square) / square) / (k + 1.0)


def _binomial_few(count: Any, p: Any, units: Array, state: Array) -> Any:
    """By waiting times between successes."""
    found, passed = 0.0, 0.0
    logarithm = math.log1p(-p)
    while int(state[0]) < units.size:
        u = unit(units, state)
        passed += math.ceil(math.log(u) / logarithm) if u > 0.0 else math.inf
        if passed > count:
            return found
        found += 1.0
    return ran_out(units, state)


def _binomial_many(count: Any, p: Any, units: Array, state: Array) -> Any:
    """By Hörmann's transformed rejection with squeeze."""
    deviation = math.sqrt(count * p * (1 - p))
    b = 1.15 + 2.53 * deviation
    a = -0.0873 + 0.0248 * b + 0.01 * p
    centre = count * p + 0.5
    inside = 0.92 - 4.2 / b
    odds = p / (1 - p)
    alpha = (2.83 + 5.1 / b) * deviation
    mode = math.floor((count + 1) * p)
    while int(state[0]) + 2 <= units.size:
        u, v = unit(units, state) - 0.5, unit(units, state)
        us = 0.5 - abs(u)
        k = math.floor((2 * a / us + b) * u + centre)
        if k < 0 or k > count:
            continue
        if us >= 0.07 and v <= inside:
            return float(k)
        left = math.log(v * alpha / (a / (us * us) + b))
        right = (mode + 0.5) * math.log((mode + 1) / (odds * (count - mode + 1)))
        right += (count + 1) * math.log((count - mode + 1) / (count - k + 1))
        right += (k + 0.5) * math.log(odds * (count - k + 1) / (k + 1))
        right += stirling_tail(mode) + stirling_tail(count - mode)
        right -= stirling_tail(k) + stirling_tail(count - k)
        if left <= right:
            return float(k)
    return ran_out(units, state)


def binomial_one(count: Any, p: Any, units: Array, state: Array) -> Any:
    if math.isnan(count) or math.isnan(p):
        return math.nan
    if count <= 0.0 or p <= 0.0:
        return 0.0
    if p >= 1.0:
        return count
    rare = p if p <= 0.5 else 1.0 - p
    if count * rare >= 10.0:
        found = _binomial_many(count, rare, units, state)
    else:
        found = _binomial_few(count, rare, units, state)
    return found if p <= 0.5 else count - found


def fill_gamma(out: Array, boosts: Array, middles: Array, units: Array, state: Array) -> None:
    for i in range(out.size):
        out[i] = gamma_one(boosts[i], middles[i], units, state)


def fill_poisson(out: Array, rates: Array, units: Array, state: Array) -> None:
    for i in range(out.size):
        out[i] = poisson_one(rates[i], units, state)


def fill_binomial(out: Array, counts: Array, ps: Array, units: Array, state: Array) -> None:
    for i in range(out.size):
        out[i] = binomial_one(counts[i], ps[i], units, state)
