"""Numba kernels of pooling. The plain twins are in pool.py; windows are those of spans.py.

All of them process planes of three dims, of which the first may have size one, from a first to a
last plane.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradscope.runtime.core.kernels.support import Array
from gradscope.runtime.core.kernels.windows.spans import WHOLE, PoolSpan, regular
from gradscope.runtime.fast.compiling.compiled import compiled
from gradscope.runtime.fast.threads.spread import spread

Spans = tuple[PoolSpan, ...]

COST = 1.0
"""Nanoseconds per element of one window."""


def _by_planes(kernel: Any, arrays: tuple[Any, ...], spans: Spans) -> None:
    """Call a kernel for all planes. The first array has a row for each."""
    cost = COST * math.prod(span.out * span.taps for span in spans)
    spread(lambda first, last: kernel(*arrays, first, last), len(arrays[0]), cost)


def max_pool(x: Array, values: Array, where: Array, spans: Spans) -> None:
    """Write the maximum of every window of the planes `x` to `values`, its index to `where`."""
    limits = tuple((span.starts, span.ends, span.step) for span in spans)
    shape = (len(x), *(span.out for span in spans))
    arrays = x, values.reshape(shape), where.reshape(shape)
    if _quarters(spans):
        _by_planes(_max_of_four, tuple(a[:, 0] for a in arrays), spans)
    else:
        _by_planes(_max_pool, (*arrays, limits), spans)


def _quarters(spans: Spans) -> bool:
    """Whether the windows are 2×2 without overlap, the most common ones."""
    depth, *others = spans
    return depth.size == 1 and all(
        (kind := span.regular) is not None
        and (kind.kernel, kind.stride, kind.padding, span.step) == (2, 2, 0, 1)
        and span.out * 2 <= span.size
        for span in others
    )


@compiled
def _max_of_four(x: Array, values: Array, where: Array, first: int, last: int) -> None:
    _, rows, columns = values.shape
    width = x.shape[2]
    for p in range(first, last):
        for i in range(rows):
            upper, lower = x[p, 2 * i], x[p, 2 * i + 1]
            made, found = values[p, i], where[p, i]
            base = 2 * i * width
            for j in range(columns):
                best, at = upper[2 * j], 0
                one = upper[2 * j + 1]
                if one > best or np.isnan(one):
                    best, at = one, 1
                one = lower[2 * j]
                if one > best or np.isnan(one):
                    best, at = one, width
                one = lower[2 * j + 1]
                if one > best or np.isnan(one):
                    best, at = one, width + 1
                made[j] = best
                found[j] = base + 2 * j + at


@compiled
def _max_pool(x: Array, values: Array, where: Array, limits: Any, first: int, last: int) -> None:
    (d_starts, d_ends, d_step), (h_starts, h_ends, h_step), (w_starts, w_ends, w_step) = limits
    _, depths, rows, columns = values.shape
    height, width = x.shape[2], x.shape[3]
    for p in range(first, last):
        own = p if len(w_starts) > 1 else 0
        whole = p if len(d_starts) > 1 else 0  # a missing dim has one row
        for d in range(depths):
            for i in range(rows):
                for j in range(columns):
                    first_d, first_h = d_starts[whole, d], h_starts[own, i]
                    first_w, end_w = w_starts[own, j], w_ends[own, j]
                    best = x.dtype.type(-np.inf)
                    at = (first_d * height + first_h) * width + first_w
                    for a in range(first_d, d_ends[whole, d], d_step):
                        for b in range(first_h, h_ends[own, i], h_step):
                            line = x[p, a, b]
                            base = (a * height + b) * width
                            for c in range(first_w, end_w, w_step):
                                one = line[c]
                                if one > best or np.isnan(one):
                                    best, at = one, base + c
                    values[p, d, i, j] = best
                    where[p, d, i, j] = at


def add_in_planes(out: Array, where: Array, values: Array) -> None:
    """Add values[p, i] to out[p] at index where[p, i]."""
    spread(
        lambda first, last: _add_in_planes(out, where, values, first, last),
        len(out),
        where.shape[1] * COST,
    )


@compiled
def _add_in_planes(out: Array, where: Array, values: Array, first: int, last: int) -> None:
    count = where.shape[1]
    for p in range(first, last):
        plane = out[p]
        for i in range(count):
            plane[where[p, i]] += values[p, i]


def avg_pool(x: Array, made: Array, spans: Spans, divisor: int) -> None:
    """Write the means of all windows of `x` to `made`; sums by `divisor`, if not zero."""
    limits = tuple((span.starts[0], span.ends[0], span.counts[0]) for span in spans)
    shape = (len(x), *(span.out for span in spans))
    _by_planes(_avg_pool, (x, made.reshape(shape), limits, divisor), spans)


@compiled
def _avg_pool(x: Array, made: Array, limits: Any, divisor: int, first: int, last: int) -> None:
    d_starts, d_ends, d_counts = limits[0]
    h_starts, h_ends, h_counts = limits[1]
    w_starts, w_ends, w_counts = limits[2]
    _, depths, rows, columns = made.shape
    nothing = x.dtype.type(0)
    for p in range(first, last):
        for d in range(depths):
            for i in range(rows):
                for j in range(columns):
                    total = nothing
                    for a in range(d_starts[d], d_ends[d]):
                        for b in range(h_starts[i], h_ends[i]):
                            line = x[p, a, b]
                            for c in range(w_starts[j], w_ends[j]):
                                total += line[c]
                    count = d_counts[d] * h_counts[i] * w_counts[j] if divisor == 0 else divisor
                    made[p, d, i, j] = total / x.dtype.type(count)


def avg_pool_backward(grad: Array, made: Array, spans: Spans, divisor: int) -> None:
    """Add every window's gradient, by its divisor, to all its elements in `made`."""
    limits = tuple((span.starts[0], span.ends[0], span.counts[0]) for span in spans)
    planes = made.reshape(-1, *(span.size for span in spans))
    shape = (len(planes), *(span.out for span in spans))
    _by_planes(_avg_pool_backward, (grad.reshape(shape), planes, limits, divisor), spans)


@compiled
def _avg_pool_backward(
    grad: Array, made: Array, limits: Any, divisor: int, first: int, last: int
) -> None:
    d_starts, d_ends, d_counts = limits[0]
    h_starts, h_ends, h_counts = limits[1]
    w_starts, w_ends, w_counts = limits[2]
    _, depths, rows, columns = grad.shape
    for p in range(first, last):
        for d in range(depths):
            for i in range(rows):
                for j in range(columns):
                    count = d_counts[d] * h_counts[i] * w_counts[j] if divisor == 0 else divisor
                    share = grad[p, d, i, j] / grad.dtype.type(count)
                    for a in range(d_starts[d], d_ends[d]):
                        for b in range(h_starts[i], h_ends[i]):
                            line = made[p, a, b]
                            for c in range(w_starts[j], w_ends[j]):
                                line[c] += share


def warm() -> None:
    """Call every kernel of this file once per dtype, to compile it."""
    for kind in (np.float32, np.float64):
        x = np.zeros((1, 1, 4, 4), kind)
        for one in (regular(4, 2, 2), regular(4, 3, 1), regular(4, 2, 1, 0, 2)):
            made = np.zeros((1, 1, one.out, one.out), kind)
            max_pool(x, made, np.zeros(made.shape, np.int64), (WHOLE, one, one))
        one = regular(4, 2, 2)
        means = np.zeros((1, 1, 2, 2), kind)
        avg_pool(x, means, (WHOLE, one, one), 0)
        avg_pool_backward(means, x, (WHOLE, one, one), 0)
        add_in_planes(np.zeros((1, 1), kind), np.zeros((1, 1), np.int64), np.zeros((1, 1), kind))
