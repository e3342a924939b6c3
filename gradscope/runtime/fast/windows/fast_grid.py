"""Numba kernels of grid sampling. Plain twins: `sample_plain`, `sample_backward_plain` in grid.py.

That file explains taps, weights and slopes. Points are processed in blocks: first the taps of all
of them, then channel by channel the sums over these taps. An image of two dims has a third one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gradscope.runtime.core.kernels.support import Array
from gradscope.runtime.fast.compiling.compiled import compiled, inner
from gradscope.runtime.fast.threads.spread import spread

BLOCK = 128
SPLIT = 134217729.0  # 2**27 + 1
BILINEAR, NEAREST, BICUBIC = range(3)
ZEROS, BORDER, REFLECTION = range(3)
TAPS = (2, 1, 4)
COST = 1.0
"""Nanoseconds per tap of one point and channel."""


def sample(x: Array, grid: Array, mode: int, padding: int, align: bool, made: Array) -> None:
    """`x`: batch × channels × depth × height × width, `grid`: batch × points × dims."""
    arrays = (x, grid, mode, padding, align, grid.shape[2] == 2, TAPS[mode], made)
    spread(
        lambda first, last: _sample(*arrays, first, last),
        len(made) * -(-made.shape[2] // BLOCK),
        BLOCK * _cost(made, grid, mode),
    )


def _cost(made: Array, grid: Array, mode: int) -> float:
    """Sample `x` (batch × channels × depth × height × width) at `grid` (batch × points × dims)."""
    return made.shape[1] * TAPS[mode] ** grid.shape[2] * COST


def sample_backward(
    grad: Array, x: Array, grid: Array, options: tuple[int, int, bool], to: Any
) -> None:
    """Add to the gradients of `x` and `grid` in `to`; an empty array is not wanted."""
    mode, padding, align = options
    flat = grid.shape[2] == 2

    def part(first: int, last: int) -> None:
        some = slice(first, last)
        rest = (mode, padding, align, flat, TAPS[mode], to[0][some], to[1][some])
        _sample_backward(grad[some], x[some], grid[some], *rest)

    spread(part, len(grad), 2 * grad.shape[2] * _cost(grad, grid, mode))


@inner
def _placed(
    at: Any, size: int, mode: int, padding: int, align: bool, flat: bool
) -> tuple[Any, Any]:
    """The position in pixels of a coordinate, and its derivative."""
    kind = type(at)
    one, two, half = kind(1), kind(2), kind(0.5)
    step = kind(size - 1) / two if align else kind(size) / two
    if align:
        at = (at + one) * step if flat else (at + one) / two * kind(size - 1)
    elif flat:
        at = _rounded_once(at + one, step, half, kind(0))
    else:
        at = _rounded_once(at + one, kind(size), one, kind(0)) / two
    if mode == BICUBIC:
        return at, step
    at, sign = _padded(at, size, padding, align)
    return at, sign * step


@inner
def _rounded_once(a: Any, b: Any, c: Any, nothing: Any) -> Any:
    """The product minus c, rounded once; float32 by way of float64, where the product is exact."""
    kind = type(nothing)
    if kind(16777217.0) == kind(16777216.0):  # float32: the compiler knows
        return kind(np.float64(a) * np.float64(b) - c)
    high_a, high_b = _high(np.float64(a)), _high(np.float64(b))
    low_a, low_b = a - high_a, b - high_b
    product = np.float64(a) * np.float64(b)
    lost = high_a * high_b - product + high_a * low_b + low_a * high_b + low_a * low_b
    return kind((product - c) + lost) if np.isfinite(lost) else kind(product - c)


@inner
def _high(x: float) -> float:
    """The upper half of a number's digits."""
    return x * SPLIT - (x * SPLIT - x)


@inner
def _padded(at: Any, size: int, padding: int, align: bool) -> tuple[Any, Any]:
    kind = type(at)
    sign = kind(1)
    if padding == ZEROS:
        return at, sign
    if padding == REFLECTION:
        low = kind(0) if align else kind(-0.5)
        span = kind(size - 1) if align else kind(size)
        if span == 0:
            return kind(0), kind(0)
        from_low = at - low
        beyond = abs(from_low)
        extra, flips = beyond % span, np.floor(beyond / span)
        sign = kind(-1) if from_low < 0 else kind(1)
        if flips % kind(2) != 0:
            sign = -sign
            at = kind(span - extra + low)
        else:
            at = kind(extra + low)
    last = kind(size - 1)
    if not at > 0:  # also for NaN
        return kind(0), kind(0)
    if at >= last:
        return last, kind(0)
    return at, sign


@inner
def _axis(
    grid: Array,
    column: int,
    size: int,
    mode: int,
    padding: int,
    align: bool,
    flat: bool,
    places: Array,
    weights: Array,
    slopes: Array,
) -> None:
    """The taps along one dim of a block of points."""
    kind = grid.dtype.type
    one, last = kind(1), kind(size - 1)
    if mode == BILINEAR:
        for p in range(len(grid)):
            at, slope = _placed(grid[p, column], size, mode, padding, align, flat)
            low = np.floor(at)
            share = at - low
            places[0, p] = np.int64(low) if low >= 0 and low <= last else -1
            places[1, p] = np.int64(low) + 1 if low >= -one and low < last else -1
            weights[0, p] = one - share if flat else low + one - at
            weights[1, p] = share
            slopes[0, p], slopes[1, p] = -slope, slope
        return
    for p in range(len(grid)):
        at, slope = _placed(grid[p, column], size, mode, padding, align, flat)
        if mode == NEAREST:
            near = np.rint(at)
            places[0, p] = np.int64(near) if near >= 0 and near <= last else -1
            weights[0, p], slopes[0, p] = one, kind(0)
        else:
            low = np.floor(at)
            share = at - low
            _cubic(share, slope, p, weights, slopes)
            for t in range(4):
                there, _ = _padded(low + kind(t - 1), size, padding, align)
                places[t, p] = np.int64(there) if there >= 0 and there < size else -1


@inner
def _cubic(share: Any, step: Any, p: int, weights: Array, slopes: Array) -> None:
    kind = type(share)
    a, one, two = kind(-0.75), kind(1), kind(2)
    for t in range(4):
        x = share + one if t == 0 else share if t == 1 else one - share if t == 2 else two - share
        turn = step if t < 2 else -step
        if t in (0, 3):
            weights[t, p] = ((a * x - kind(5) * a) * x + kind(8) * a) * x - kind(4) * a
            slopes[t, p] = turn * ((kind(3) * a * x - kind(10) * a) * x + kind(8) * a)
        else:
            weights[t, p] = ((a + two) * x - (a + kind(3))) * x * x + one
            slopes[t, p] = turn * ((kind(3) * (a + two) * x - two * (a + kind(3))) * x)


@inner
def _block(
    grid: Array,
    shape: tuple[int, int, int],
    mode: int,
    padding: int,
    align: bool,
    flat: bool,
    taps: int,
    each: tuple[Array, Array, Array],
    at: Array,
    weights: Array,
) -> None:
    """The taps of a block of points: along each dim (in `each`) and combined."""
    places, factors, slopes = each
    depth, height, width = shape
    count, dims = len(grid), grid.shape[1]
    for d, size in ((0, width), (1, height), (2, depth)):
        if d < dims:
            one = places[d], factors[d], slopes[d]
            _axis(grid, d, size, mode, padding, align, flat, one[0], one[1], one[2])
    deep = taps if dims == 3 else 1
    for i in range(deep):
        for j in range(taps):
            for k in range(taps):
                row = (i * taps + j) * taps + k
                for p in range(count):
                    z = places[2, i, p] if dims == 3 else 0
                    y, x = places[1, j, p], places[0, k, p]
                    outside = z < 0 or y < 0 or x < 0
                    at[row, p] = -1 if outside else (z * height + y) * width + x
                    weight = factors[0, k, p] * factors[1, j, p]
                    weights[row, p] = weight * factors[2, i, p] if dims == 3 else weight


@compiled
def _sample(
    x: Array,
    grid: Array,
    mode: int,
    padding: int,
    align: bool,
    flat: bool,
    taps: int,
    made: Array,
    first: int,
    last: int,
) -> None:
    """Process some blocks of points, counted over all images."""
    _, channels, points = made.shape
    of_picture = (points + BLOCK - 1) // BLOCK
    shape = x.shape[2], x.shape[3], x.shape[4]
    rows = taps * taps * (1 if flat else taps)
    at, weights = np.empty((rows, BLOCK), np.int64), np.empty((rows, BLOCK), x.dtype)
    each = (
        np.empty((3, taps, BLOCK), np.int64),
        np.empty((3, taps, BLOCK), x.dtype),
        np.empty((3, taps, BLOCK), x.dtype),
    )
    for block in range(first, last):
        n, begin = block // of_picture, block % of_picture * BLOCK
        end = min(begin + BLOCK, points)
        some = grid[n, begin:end]
        _block(some, shape, mode, padding, align, flat, taps, each, at, weights)
        for c in range(channels):
            plane, row = x[n, c].reshape(-1), made[n, c, begin:end]
            for p in range(end - begin):
                total = x.dtype.type(0)
                for k in range(rows):
                    place = at[k, p]
                    if place >= 0:
                        total += weights[k, p] * plane[place]
                row[p] = total


@compiled
def _sample_backward(
    grad: Array,
    x: Array,
    grid: Array,
    mode: int,
    padding: int,
    align: bool,
    flat: bool,
    taps: int,
    to_x: Array,
    to_grid: Array,
) -> None:
    batch, channels, points = grad.shape
    shape = x.shape[2], x.shape[3], x.shape[4]
    rows = taps * taps * (1 if flat else taps)
    at, weights = np.empty((rows, BLOCK), np.int64), np.empty((rows, BLOCK), x.dtype)
    parts = np.empty((rows, BLOCK), x.dtype)
    each = (
        np.empty((3, taps, BLOCK), np.int64),
        np.empty((3, taps, BLOCK), x.dtype),
        np.empty((3, taps, BLOCK), x.dtype),
    )
    for n in range(batch):
        for begin in range(0, points, BLOCK):
            end = min(begin + BLOCK, points)
            count = end - begin
            some = grid[n, begin:end]
            _block(some, shape, mode, padding, align, flat, taps, each, at, weights)
            if to_x.size:
                for c in range(channels):
                    plane, given = to_x[n, c].reshape(-1), grad[n, c, begin:end]
                    for p in range(count):
                        for k in range(rows):
                            place = at[k, p]
                            if place >= 0:
                                plane[place] += weights[k, p] * given[p]
            if to_grid.size:
                parts[:] = 0
                for c in range(channels):
                    plane, given = x[n, c].reshape(-1), grad[n, c, begin:end]
                    for p in range(count):
                        for k in range(rows):
                            place = at[k, p]
                            if place >= 0:
                                parts[k, p] += plane[place] * given[p]
                _by_point(each, parts, taps, to_grid[n, begin:end])


@inner
def _by_point(each: tuple[Array, Array, Array], parts: Array, taps: int, to_grid: Array) -> None:
    """The derivative by the points: slopes in place of weights along each dim in turn."""
    _, factors, slopes = each
    count, dims = to_grid.shape
    deep = taps if dims == 3 else 1
    for z in range(deep):
        for y in range(taps):
            for x in range(taps):
                row = parts[(z * taps + y) * taps + x]
                for p in range(count):
                    part = row[p]
                    along_x, along_y = part * factors[1, y, p], part * factors[0, x, p]
                    if dims == 3:
                        to_grid[p, 2] += slopes[2, z, p] * factors[1, y, p] * along_y
                        along_x *= factors[2, z, p]
                        along_y *= factors[2, z, p]
                    to_grid[p, 1] += along_y * slopes[1, y, p]
                    to_grid[p, 0] += along_x * slopes[0, x, p]


def warm() -> None:
    """Call every kernel of this file once per dtype, to compile it."""
    for kind in (np.float32, np.float64):
        x, grid = np.zeros((1, 1, 1, 2, 2), kind), np.zeros((1, 1, 2), kind)
        made = np.zeros((1, 1, 1), kind)
        sample(x, grid, BILINEAR, ZEROS, False, made)
        sample_backward(made, x, grid, (BILINEAR, ZEROS, False), (x, grid))
