"""Numba kernels of normalizations, float32 and float64. The plain twins are in norms.py.

Kernels over channels process a range of them, counted over all samples. Sums within blocks use the
arrays' own precision, sums of blocks double precision.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradscope.runtime.core.kernels.support import Array
from gradscope.runtime.fast.arrays.fast_math import ANY_ORDER
from gradscope.runtime.fast.compiling.compiled import compiled, inner

BLOCK = 1024
ROWS = 128
"""Number of rows that are summed in the arrays' own precision."""


@inner(fastmath=ANY_ORDER)
def _sum(row: Array) -> float:
    total = 0.0
    for start in range(0, row.size, BLOCK):
        block = row[start : start + BLOCK]
        part = block[0] * 0
        for j in range(block.size):
            part += block[j]
        total += part
    return total


@inner(fastmath=ANY_ORDER)
def _squares(row: Array, mean: Any) -> float:
    """The sum of squared deviations from the mean."""
    total = 0.0
    for start in range(0, row.size, BLOCK):
        block = row[start : start + BLOCK]
        part = block[0] * 0
        for j in range(block.size):
            part += (block[j] - mean) * (block[j] - mean)
        total += part
    return total


@inner(fastmath=ANY_ORDER)
def _product(grad: Array, row: Array, mean: Any) -> float:
    """The sum of products with deviations from the mean."""
    total = 0.0
    for start in range(0, row.size, BLOCK):
        block, other = row[start : start + BLOCK], grad[start : start + BLOCK]
        part = block[0] * 0
        for j in range(block.size):
            part += other[j] * (block[j] - mean)
        total += part
    return total


@compiled(fastmath=ANY_ORDER)
def layer_norm(
    x: Array, weight: Array, bias: Array, eps: float, out: Array, means: Array, rstds: Array
) -> None:
    count, width = x.shape
    for i in range(count):
        row, made = x[i], out[i]
        mean = row.dtype.type(_sum(row) / width)
        variance = _squares(row, mean) / width
        rstd = row.dtype.type(1.0 / math.sqrt(variance + eps))
        means[i] = mean
        rstds[i] = rstd
        for j in range(width):
            made[j] = (row[j] - mean) * rstd * weight[j] + bias[j]


@compiled(fastmath=ANY_ORDER)
def layer_norm_backward(
    grad: Array, x: Array, means: Array, rstds: Array, weight: Array, out: Array, sums: Array
) -> None:
    """The gradient of x; `sums` has a row for weight's and one for bias' for each block of rows."""
    count, width = x.shape
    for start in range(0, count, ROWS):
        to_weight, to_bias = sums[start // ROWS, 0], sums[start // ROWS, 1]
        to_weight[:] = 0
        to_bias[:] = 0
        for i in range(start, min(start + ROWS, count)):
            g, row, made, mean, rstd = grad[i], x[i], out[i], means[i], rstds[i]
            first = row[0] * 0
            second = row[0] * 0
            for j in range(width):
                normal = (row[j] - mean) * rstd
                scaled = g[j] * weight[j]
                first += scaled
                second += scaled * normal
                to_weight[j] += g[j] * normal
                to_bias[j] += g[j]
            first /= width
            second /= width
            for j in range(width):
                normal = (row[j] - mean) * rstd
                made[j] = (g[j] * weight[j] - first - normal * second) * rstd


@compiled(fastmath=ANY_ORDER)
def batch_moments(x: Array, means: Array, variances: Array, first: int, last: int) -> None:
    """Mean and variance of some channels; x is (samples, channels, size)."""
    samples, _, size = x.shape
    count = samples * size
    for c in range(first, last):
        total = 0.0
        for n in range(samples):
            total += _sum(x[n, c])
        mean = x.dtype.type(total / count)
        squares = 0.0
        for n in range(samples):
            squares += _squares(x[n, c], mean)
        means[c] = mean
        variances[c] = squares / count


@compiled(fastmath=ANY_ORDER)
def scale_channels(x: Array, scale: Array, shift: Array, out: Array, first: int, last: int) -> None:
    """X * scale + shift, with a number of each per channel, or per sample and channel."""
    _, channels, size = x.shape
    each = len(scale) > 1
    for plane in range(first, last):
        n, c = plane // channels, plane % channels
        a, b = scale[n if each else 0, c], shift[n if each else 0, c]
        row, made = x[n, c], out[n, c]
        for j in range(size):
            made[j] = row[j] * a + b


@compiled(fastmath=ANY_ORDER)
def channel_sums(
    grad: Array, x: Array, means: Array, of_grad: Array, of_product: Array, first: int, last: int
) -> None:
    """The sums of grad and of grad * (x - mean), for each channel of each sample."""
    channels = of_grad.shape[1]
    each = len(means) > 1
    for plane in range(first, last):
        n, c = plane // channels, plane % channels
        of_grad[n, c] = _sum(grad[n, c])
        of_product[n, c] = _product(grad[n, c], x[n, c], means[n if each else 0, c])


@compiled(fastmath=ANY_ORDER)
def mix_channels(
    grad: Array,
    x: Array,
    of_grad: Array,
    of_x: Array,
    rest: Array,
    out: Array,
    first: int,
    last: int,
) -> None:
    """Write grad * of_grad + x * of_x + rest to `out`, with numbers as in `scale_channels`."""
    _, channels, size = x.shape
    each = len(rest) > 1
    for plane in range(first, last):
        n, c = plane // channels, plane % channels
        k = n if each else 0
        a, b, d = of_grad[k, c], of_x[k, c], rest[k, c]
        g, row, made = grad[n, c], x[n, c], out[n, c]
        for j in range(size):
            made[j] = g[j] * a + row[j] * b + d


def warm() -> None:
    """Call every kernel of this file once per dtype, to compile it."""
    for kind in (np.float32, np.float64):
        x, vector = np.ones((2, 4), kind), np.ones(4, kind)
        of_rows = np.ones(2, kind)
        layer_norm(x, vector, vector, 1e-5, np.empty_like(x), of_rows.copy(), of_rows.copy())
        sums = np.empty((1, 2, 4), kind)
        layer_norm_backward(x, x, of_rows, of_rows, vector, np.empty_like(x), sums)
        batch, numbers, out = (
            np.ones((2, 2, 4), kind),
            np.ones((1, 2), kind),
            np.empty((2, 2, 4), kind),
        )
        batch_moments(batch, of_rows.copy(), np.ones(2), 0, 2)
        scale_channels(batch, numbers, numbers, out, 0, 4)
        channel_sums(batch, batch, numbers, np.ones((2, 2)), np.ones((2, 2)), 0, 4)
        mix_channels(batch, batch, numbers, numbers, numbers, out, 0, 4)
