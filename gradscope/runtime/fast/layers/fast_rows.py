"""Numba kernels over the rows of a matrix, float32 only: softmax and similar ones.

The plain twins are in row_softmax.py and attention.py.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradscope.runtime.core.kernels.support import Array
from gradscope.runtime.fast.arrays.fast_math import (
    ANY_ORDER,
    ONE,
    ZERO,
    exp_of_each,
    f32,
    greatest,
    sum_of,
)
from gradscope.runtime.fast.compiling.compiled import compiled

GROUP = 4096
"""Approximate number of elements of rows that are processed together, for the nearest cache.

Exponentials are computed for all of them at once: in single rows, the elements that do not fill a
vector would cost more than all others.
"""


@compiled(fastmath=ANY_ORDER)
def softmax(x: Array, out: Array) -> None:
    count, width = x.shape
    rows = max(1, GROUP // width)
    for start in range(0, count, rows):
        group, made = x[start : start + rows], out[start : start + rows]
        for i in range(len(group)):
            top = greatest(group[i])
            for j in range(width):
                made[i, j] = group[i, j] - top
        exp_of_each(made.reshape(-1))
        for i in range(len(group)):
            share = ONE / sum_of(made[i])
            for j in range(width):
                made[i, j] *= share


@compiled(fastmath=ANY_ORDER)
def softmax_backward(grad: Array, output: Array, out: Array) -> None:
    count, width = output.shape
    for i in range(count):
        g, y, made = grad[i], output[i], out[i]
        along = ZERO
        for j in range(width):
            along += g[j] * y[j]
        for j in range(width):
            made[j] = (g[j] - along) * y[j]


@compiled(fastmath=ANY_ORDER)
def log_softmax(x: Array, out: Array) -> None:
    count, width = x.shape
    rows = max(1, GROUP // width)
    spare = np.empty((rows, width), x.dtype)
    for start in range(0, count, rows):
        group, made = x[start : start + rows], out[start : start + rows]
        powers = spare[: len(group)]
        for i in range(len(group)):
            top = greatest(group[i])
            for j in range(width):
                made[i, j] = group[i, j] - top
                powers[i, j] = made[i, j]
        exp_of_each(powers.reshape(-1))
        for i in range(len(group)):
            less = f32(math.log(sum_of(powers[i])))
            for j in range(width):
                made[i, j] -= less


@compiled(fastmath=ANY_ORDER)
def log_softmax_backward(grad: Array, output: Array, out: Array) -> None:
    count, width = output.shape
    rows = max(1, GROUP // width)
    for start in range(0, count, rows):
        group, made = output[start : start + rows], out[start : start + rows]
        for i in range(len(group)):
            for j in range(width):
                made[i, j] = group[i, j]
        exp_of_each(made.reshape(-1))
        for i in range(len(group)):
            g = grad[start + i]
            total = sum_of(g)
            for j in range(width):
                made[i, j] = g[j] - made[i, j] * total


@compiled(fastmath=ANY_ORDER)
def attention(weights: Array, logs: Array, scale: Any, start: int, rows: int, causal: bool) -> None:
    """Products to weights, in place; row i is that of query start + i % rows."""
    count, width = weights.shape
    together = max(1, GROUP // width)
    for first in range(0, count, together):
        group = weights[first : first + together]
        tops = logs[first : first + together]
        for i in range(len(group)):
            end = min(width, start + (first + i) % rows + 1) if causal else width
            row, hidden = group[i, :end], group[i, end:]
            for j in range(row.size):
                row[j] *= scale
            top = greatest(row)
            top = ZERO if top == -np.inf else top
            for j in range(row.size):
                row[j] -= top
            hidden[:] = -np.inf
            tops[i] = top
        exp_of_each(group.reshape(-1))
        for i in range(len(group)):
            total = sum_of(group[i])
            total = ONE if total == ZERO else total
            share = ONE / total
            for j in range(width):
                group[i, j] *= share
            tops[i] += f32(math.log(total))


@compiled(fastmath=ANY_ORDER)
def attention_backward(
    weights: Array,
    slopes: Array,
    logs: Array,
    along: Array,
    scale: Any,
    start: int,
    rows: int,
    causal: bool,
) -> None:
    """Products to weights, and the gradients of weights to those of the products, in place."""
    count, width = weights.shape
    together = max(1, GROUP // width)
    for first in range(0, count, together):
        group = weights[first : first + together]
        for i in range(len(group)):
            end = min(width, start + (first + i) % rows + 1) if causal else width
            row, hidden, log = group[i, :end], group[i, end:], logs[first + i]
            for j in range(row.size):
                row[j] = row[j] * scale - log
            hidden[:] = -np.inf
        exp_of_each(group.reshape(-1))
        for i in range(len(group)):
            slope, less = slopes[first + i], along[first + i]
            for j in range(width):
                slope[j] = (slope[j] - less) * group[i, j] * scale


def warm() -> None:
    """Call every kernel of this file once."""
    x = np.ones((2, 4), f32)
    for forward in (softmax, log_softmax):
        forward(x, np.empty_like(x))
    for backward in (softmax_backward, log_softmax_backward):
        backward(x, x, np.empty_like(x))
    sums = np.ones(2, f32)
    attention(x.copy(), sums, ONE, 0, 2, True)
    attention_backward(x.copy(), x.copy(), sums, sums, ONE, 0, 2, True)
