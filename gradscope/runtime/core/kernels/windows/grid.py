"""Sampling of images at points of a grid, with all derivatives.

A point's value is a weighted sum of the image at a few pixels, its taps. Weights are products of
one weight for each dim, so derivatives by the point are products too, with first (or second)
derivatives in place of some weights. What remains are three sums over taps: `gathered`, `scattered`
and `products`. Compiled kernels do everything at once, in blocks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from gradscope.runtime.core.kernels.arrays.fused import multiply_add
from gradscope.runtime.core.kernels.support import Array, Family, quiet
from gradscope.runtime.core.kernels.windows.pool import COMPILED
from gradscope.runtime.core.kernels.windows.taps import (
    cubic_curvatures,
    cubic_slopes,
    cubic_weights,
)

BILINEAR, NEAREST, BICUBIC = range(3)
ZEROS, BORDER, REFLECTION = range(3)
SHARPNESS = -0.75


FAST: Final = Family("windows.fast_grid", few=4 * COMPILED)


class GridTaps(NamedTuple):
    """The taps of all points along one dim: their pixels (-1: outside), and their factors.

    `factors[k]` is the k-th derivative of the weights by the point's coordinate in the grid.
    """

    size: int
    places: Array  # batch × points × taps
    factors: tuple[Array, Array, Array]


@quiet
def axes(grid: Array, sizes: Sequence[int], mode: int, padding: int, align: bool) -> list[GridTaps]:
    """The taps along each dim of the image; the grid lists its dims last first."""
    points = grid.reshape(len(grid), -1, len(sizes))
    return [
        _axis(points[..., len(sizes) - 1 - dim], size, mode, padding, align, len(sizes) == 2)
        for dim, size in enumerate(sizes)
    ]


def _axis(at: Array, size: int, mode: int, padding: int, align: bool, flat: bool) -> GridTaps:
    kind = at.dtype.type
    step = kind((size - 1) / 2 if align else size / 2)
    if align and flat:  # each as PyTorch rounds it
        at = (at + kind(1)) * step
    elif align:
        at = (at + kind(1)) / kind(2) * kind(size - 1)
    elif flat:
        at = multiply_add(at + kind(1), step, kind(-0.5))
    else:
        at = multiply_add(at + kind(1), kind(size), kind(-1)) / kind(2)
    slope: Any = step
    if mode != BICUBIC:
        at, sign = _padded(at, size, padding, align)
        slope = sign * step
    low = np.floor(at)
    if mode == NEAREST:
        places = np.rint(at)[..., None]
        flatness = np.zeros_like(places)
        return GridTaps(size, _inside(places, size), (np.ones_like(places), flatness, flatness))
    if mode == BILINEAR:
        places = np.stack([low, low + 1], -1)
        share = at - low
        weights = np.stack([kind(1) - share if flat else low + kind(1) - at, share], -1)
        slopes = np.stack([-slope + 0 * at, slope + 0 * at], -1)
        return GridTaps(size, _inside(places, size), (weights, slopes, np.zeros_like(slopes)))
    share = at - low
    places = low[..., None] + np.arange(-1, 3).astype(at.dtype)
    factors = (
        cubic_weights(share, SHARPNESS),
        cubic_slopes(share, SHARPNESS) * step,
        cubic_curvatures(share, SHARPNESS) * step * step,
    )
    return GridTaps(size, _inside(_padded(places, size, padding, align)[0], size), factors)


def _inside(places: Array, size: int) -> Array:
    """The positions as integers, -1 for all that are outside or NaN."""
    inside = (places >= 0) & (places < size)
    return np.where(inside, places, -1).astype(np.int64)


def _padded(at: Array, size: int, padding: int, align: bool) -> tuple[Array, Array]:
    """The position used for a point that may be outside, and its derivative."""
    sign = np.ones_like(at)
    if padding == ZEROS:
        return at, sign
    if padding == REFLECTION:
        at, sign = _reflected(at, *((0, 2 * (size - 1)) if align else (-1, 2 * size - 1)))
    kind = at.dtype.type
    at = np.where(np.isnan(at), kind(0), at)
    inner = (at > kind(0)) & (at < kind(size - 1))
    at = np.minimum(np.maximum(at, kind(0)), kind(size - 1))
    return at, np.where(inner, sign, kind(0))


def _reflected(at: Array, twice_low: int, twice_high: int) -> tuple[Array, Array]:
    """The point mirrored at both ends until it is between them."""
    if twice_low == twice_high:
        return np.zeros_like(at), np.zeros_like(at)
    kind = at.dtype.type
    low, span = kind(twice_low / 2), kind((twice_high - twice_low) / 2)
    from_low = at - low
    beyond = np.abs(from_low)
    extra, flips = np.fmod(beyond, span), np.floor(beyond / span)
    odd = np.fmod(flips, kind(2)) != 0
    sign = np.where(from_low < 0, kind(-1), kind(1)) * np.where(odd, kind(-1), kind(1))
    return np.where(odd, span - extra + low, extra + low), sign


# -- taps of all dims together -------------------------------------------------------------------


def together(found: Sequence[GridTaps], orders: Sequence[int]) -> Array:
    """The products of factors along all dims; orders[d] is the derivative's order along dim d."""
    made = found[0].factors[orders[0]]
    for axis, order in zip(found[1:], orders[1:], strict=True):
        made = made[..., :, None] * axis.factors[order][..., None, :]
        made = made.reshape(*made.shape[:2], -1)
    return np.ascontiguousarray(made)


def where(found: Sequence[GridTaps]) -> Array:
    """Flat positions of the taps in the image, -1 for those outside."""
    made = found[0].places
    for axis in found[1:]:
        first, other = made[..., :, None], axis.places[..., None, :]
        both = np.where((first < 0) | (other < 0), -1, first * axis.size + other)
        made = both.reshape(*both.shape[:2], -1)
    return np.ascontiguousarray(made)


def moved(found: Sequence[GridTaps], by: Array) -> Array:
    """The change of the weights if points move by `by` (batch × points × dims, last first)."""
    count = len(found)
    made: Any = 0
    for dim in range(count):
        orders = [int(d == dim) for d in range(count)]
        made = made + by[..., count - 1 - dim, None] * together(found, orders)
    return np.ascontiguousarray(made)


def by_point(found: Sequence[GridTaps], parts: Array) -> Array:
    """The derivative by the points of the sum over taps of weights times `parts`."""
    count = len(found)
    made = np.empty((*parts.shape[:2], count), parts.dtype)
    for dim in range(count):
        orders = [int(d == dim) for d in range(count)]
        made[..., count - 1 - dim] = (together(found, orders) * parts).sum(-1)
    return made


def by_point_moved(found: Sequence[GridTaps], parts: Array, by: Array) -> Array:
    """The derivative by the points of the sum over taps of `moved` weights times `parts`."""
    count = len(found)
    made = np.zeros((*parts.shape[:2], count), parts.dtype)
    for dim in range(count):
        for other in range(count):
            orders = [int(d == dim) + int(d == other) for d in range(count)]
            change = (together(found, orders) * parts).sum(-1)
            made[..., count - 1 - dim] += by[..., count - 1 - other] * change
    return made


# -- sums over taps ------------------------------------------------------------------------------


def _pays(x: Array, points: int) -> bool:
    return FAST.wins(4 * len(x) * points * x.shape[1])


Options = tuple[int, int, bool]
"""Interpolation mode, padding mode, and align_corners."""


def sample(x: Array, grid: Array, options: Options) -> Array:
    """The image at each point, for each channel: batch × channels × points."""
    points = grid.reshape(len(grid), -1, x.ndim - 2)
    if not _pays(x, points.shape[1]) or not x.size:
        return sample_plain(x, points, options)
    made = np.empty((*x.shape[:2], points.shape[1]), x.dtype)
    FAST.kernels.sample(_volumes(x), np.ascontiguousarray(points), *options, made)
    return made


def sample_backward(
    grad: Array, x: Array, grid: Array, options: Options, wanted: Sequence[bool]
) -> tuple[Array | None, Array | None]:
    """The gradients of the image and of the grid."""
    points = grid.reshape(len(grid), -1, x.ndim - 2)
    if not _pays(x, points.shape[1]) or not x.size:
        return sample_backward_plain(grad, x, points, options, wanted)
    shapes = (x.shape, points.shape)
    to = [
        np.zeros(s if want else (0,) * len(s), x.dtype)
        for s, want in zip(shapes, wanted, strict=True)
    ]
    arrays = (np.ascontiguousarray(grad), _volumes(x), np.ascontiguousarray(points))
    FAST.kernels.sample_backward(*arrays, options, (_volumes(to[0]), to[1]))
    return to[0] if wanted[0] else None, to[1] if wanted[1] else None


def _volumes(x: Array) -> Array:
    """Images of two dims as images of three."""
    x = np.ascontiguousarray(x)
    return x if x.ndim == 5 else x.reshape(*x.shape[:2], 1, *x.shape[2:])


def sample_plain(x: Array, points: Array, options: Options) -> Array:
    found = axes(points, x.shape[2:], *options)
    return gathered(flattened(x), where(found), together(found, (0,) * len(found)))


def sample_backward_plain(
    grad: Array, x: Array, points: Array, options: Options, wanted: Sequence[bool]
) -> tuple[Array | None, Array | None]:
    found = axes(points, x.shape[2:], *options)
    at, to_x, to_points = where(found), None, None
    if wanted[0]:
        weights = together(found, (0,) * len(found))
        size = int(np.prod(x.shape[2:], dtype=int))
        to_x = scattered(grad, at, weights, size).reshape(x.shape)
    if wanted[1]:
        to_points = by_point(found, products(flattened(x), at, grad))
    return to_x, to_points


def flattened(x: Array) -> Array:
    """All pixels in one dim."""
    return x.reshape(*x.shape[:2], int(np.prod(x.shape[2:], dtype=int)))


def _taken(x: Array, at: Array) -> Array:
    """The image at the taps (batch × channels × points × taps), zero outside."""
    if not x.shape[-1]:
        return np.zeros((*x.shape[:2], *at.shape[1:]), x.dtype)
    flat = np.maximum(at, 0).reshape(len(at), 1, -1)
    seen = np.take_along_axis(x, flat, 2).reshape(*x.shape[:2], *at.shape[1:])
    return np.where(at[:, None] < 0, x.dtype.type(0), seen)


def gathered(x: Array, at: Array, weights: Array) -> Array:
    """For each channel and point the weighted sum of the image at its taps."""
    return np.asarray((_taken(x, at) * weights[:, None]).sum(-1), x.dtype)


def scattered(grad: Array, at: Array, weights: Array, size: int) -> Array:
    """Every point's gradient distributed to its taps, by their weights."""
    batch, channels = grad.shape[:2]
    made = np.zeros((batch, channels, size + 1), grad.dtype)  # the last is everything outside
    shares = grad[..., None] * weights[:, None]
    target = np.broadcast_to(np.where(at < 0, size, at)[:, None], shares.shape)
    rows = np.arange(batch * channels).reshape(batch, channels, 1, 1) * (size + 1)
    np.add.at(made.reshape(-1), (target + rows).reshape(-1), shares.reshape(-1))
    return np.ascontiguousarray(made[..., :size])


def products(x: Array, at: Array, grad: Array) -> Array:
    """For each tap the sum over channels of the image there times the point's gradient."""
    return np.asarray((_taken(x, at) * grad[..., None]).sum(1), x.dtype)


@quiet
def sampled_in_halves(x: Array, points: Array, options: Options) -> Array:
    """The result of `sample`, rounded after every step, as PyTorch does with halves."""
    found = axes(points, x.shape[2:], *options)
    x, total = flattened(x), None
    if options[0] == BICUBIC:
        rows, columns = found
        for i in range(4):
            line = _summed(_tap(x, found, (i, j)) * _factor(columns, j) for j in range(4))
            total = _plus(total, line * _factor(rows, i))
        return np.asarray(total)
    for taps in np.ndindex(*(axis.places.shape[-1] for axis in found)):
        weight: Any = 1
        for axis, tap in zip(reversed(found), reversed(taps), strict=True):
            weight = _factor(axis, tap) * weight if axis is not found[-1] else _factor(axis, tap)
        total = _plus(total, _tap(x, found, taps) * weight)
    return np.asarray(total)


def _factor(axis: GridTaps, tap: int) -> Array:
    return axis.factors[0][:, None, :, tap]


def _plus(total: Any, term: Any) -> Any:
    return term if total is None else total + term


def _summed(terms: Iterable[Any]) -> Any:
    total: Any = None
    for term in terms:
        total = _plus(total, term)
    return total


def _tap(x: Array, found: Sequence[GridTaps], taps: tuple[int, ...]) -> Array:
    """The image at one tap of every point."""
    each = [
        GridTaps(axis.size, axis.places[..., tap : tap + 1], axis.factors)
        for axis, tap in zip(found, taps, strict=True)
    ]
    return _taken(x, where(each))[..., 0]
