"""The incomplete gamma function: the share of a gamma distribution below a point."""

from __future__ import annotations

import numpy as np

from gradscope.runtime.core.kernels.special.special import lgamma
from gradscope.runtime.core.kernels.support import Array, quiet

ROUNDS = 2000  # far more than needed: it stops when nothing changes


@quiet
def gammainc(a: Array, x: Array) -> Array:
    """Return the lower share: by a power series near zero, otherwise by a continued fraction."""
    return _share(a, x, upper=False)


@quiet
def gammaincc(a: Array, x: Array) -> Array:
    """Return the upper share, one minus the lower."""
    return _share(a, x, upper=True)


def _share(a: Array, x: Array, *, upper: bool) -> Array:
    kind = np.result_type(a, x)
    shapes, points = np.broadcast_arrays(a.astype(np.float64), x.astype(np.float64))
    made = np.full(shapes.shape, np.nan)
    there = (shapes >= 0) & (points >= 0)
    edge = there & ((points == 0) | (shapes == 0) | np.isinf(shapes) | np.isinf(points))
    below = ((points == 0) & (shapes > 0)) | (np.isinf(shapes) & np.isfinite(points))
    above = ((shapes == 0) & (points > 0)) | (np.isinf(points) & np.isfinite(shapes))
    made[edge & below], made[edge & above] = float(upper), float(not upper)
    inside = there & ~edge
    early = inside & (points < shapes + 1)
    late = inside & ~early
    if np.any(early):
        lower = _series(shapes[early], points[early])
        made[early] = 1 - lower if upper else lower
    if np.any(late):
        rest = _fraction(shapes[late], points[late])
        made[late] = rest if upper else 1 - rest
    return made.astype(kind)


def _front(a: Array, x: Array) -> Array:
    return np.asarray(np.exp(a * np.log(x) - x - lgamma(a)))


def _series(a: Array, x: Array) -> Array:
    """The sum of x^n / (a (a + 1) … (a + n))."""
    term = 1 / a
    total = term.copy()
    for n in range(1, ROUNDS):
        term = term * x / (a + n)
        total += term
        if np.all(np.abs(term) <= np.abs(total) * 1e-17):
            break
    return np.asarray(total * _front(a, x))


def _fraction(a: Array, x: Array) -> Array:
    """Lentz's method for the continued fraction of the rest."""
    tiny = 1e-300
    b = x + 1 - a
    c, d = np.full_like(x, 1 / tiny), 1 / b
    value = d.copy()
    for n in range(1, ROUNDS):
        step = -n * (n - a)
        b = b + 2
        d = step * d + b
        d = 1 / np.where(np.abs(d) < tiny, tiny, d)
        c = b + step / c
        c = np.where(np.abs(c) < tiny, tiny, c)
        value = value * c * d
        if np.all(np.abs(c * d - 1) < 1e-16):
            break
    return np.asarray(value * _front(a, x))
