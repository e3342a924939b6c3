"""Norms by compiled kernels, in several threads. The plain twins are in core/kernels."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from gradscope.runtime.core.kernels.layers.norms import Grads, Needs
from gradscope.runtime.core.kernels.support import Array
from gradscope.runtime.fast.layers import fast_norms
from gradscope.runtime.fast.threads.spread import spread

COST: Final = 0.4
"""Nanoseconds per element."""


def _beside(vector: Array | None, value: float, size: int, x: Array) -> Array:
    """A vector in the dtype of x; if missing, `size` times `value`."""
    if vector is None:
        return np.full(size, value, x.dtype)
    return np.ascontiguousarray(vector, x.dtype).reshape(-1)


def layer_norm(
    x: Array, count: int, weight: Array | None, bias: Array | None, eps: float
) -> tuple[Array, Array, Array]:
    lead, width = x.shape[: x.ndim - count], math.prod(x.shape[x.ndim - count :])
    out = np.empty(x.shape, x.dtype)
    mean, rstd = (np.empty((*lead, *(1 for _ in range(count))), x.dtype) for _ in range(2))
    rows, made = np.ascontiguousarray(x).reshape(-1, width), out.reshape(-1, width)
    means, rstds = mean.reshape(-1), rstd.reshape(-1)
    vectors = _beside(weight, 1, width, x), _beside(bias, 0, width, x)
    kernel = fast_norms.layer_norm

    def part(first: int, last: int) -> None:
        some = slice(first, last)
        kernel(rows[some], *vectors, eps, made[some], means[some], rstds[some])

    spread(part, len(rows), width * COST)
    return out, mean, rstd


def layer_norm_backward(
    grad: Array,
    x: Array,
    mean: Array,
    rstd: Array,
    weight: Array | None,
    count: int,
    needs: Needs,
) -> Grads:
    shape = x.shape[x.ndim - count :]
    width = math.prod(shape)
    out = np.empty(x.shape, x.dtype)
    grads, rows, made = (np.ascontiguousarray(a).reshape(-1, width) for a in (grad, x, out))
    means, rstds = (np.ascontiguousarray(a).reshape(-1) for a in (mean, rstd))
    factors = _beside(weight, 1, width, x)
    kernel, block = fast_norms.layer_norm_backward, fast_norms.ROWS
    sums = np.empty((-(-len(rows) // block), 2, width), x.dtype)

    def part(first: int, last: int) -> None:
        some, blocks = slice(first, last), slice(first // block, -(-last // block))
        arrays = (grads[some], rows[some], means[some], rstds[some])
        kernel(*arrays, factors, made[some], sums[blocks])

    spread(part, len(rows), 2 * width * COST, multiple=block)
    whole = np.add.reduce(sums, axis=0, dtype=np.float64)
    to_weight, to_bias = (row.astype(x.dtype).reshape(shape) for row in whole)
    return out, to_weight if needs[1] else None, to_bias if needs[2] else None


def _planes(x: Array) -> Array:
    """A batch as (samples, channels, everything else)."""
    return np.ascontiguousarray(x).reshape(x.shape[0], x.shape[1], -1)


def scaled(x: Array, scale: Array, shift: Array) -> Array:
    out = np.empty(x.shape, x.dtype)
    kind = x.dtype
    arrays = (_planes(x), scale.astype(kind), shift.astype(kind), _planes(out))
    _by_planes(fast_norms.scale_channels, arrays)
    return out


def _by_planes(kernel: Any, arrays: tuple[Array, ...]) -> None:
    """Call a kernel for all channels of all samples. The first array has all their elements."""
    planes = arrays[0].shape[0] * arrays[0].shape[1]
    cost = arrays[0].shape[2] * COST
    spread(lambda first, last: kernel(*arrays, first, last), planes, cost)


def moments(x: Array) -> tuple[Array, Array]:
    """The mean of each channel, and its variance in double precision."""
    return _moments_of(_planes(x))


def _moments_of(x: Array) -> tuple[Array, Array]:
    samples, channels, size = x.shape
    mean, variance = np.empty(channels, x.dtype), np.empty(channels)
    kernel, cost = fast_norms.batch_moments, samples * size * COST
    spread(lambda first, last: kernel(x, mean, variance, first, last), channels, cost)
    return mean, variance


def _sums(grad: Array, x: Array, means: Array) -> tuple[Array, Array]:
    """The sums of grad and of grad * (x - mean) per channel of each sample, in double precision."""
    of_grad, of_product = (np.empty(x.shape[:2]) for _ in range(2))
    arrays = (_planes(grad), _planes(x), means.astype(x.dtype), of_grad, of_product)
    _by_planes(fast_norms.channel_sums, arrays)
    return of_grad, of_product


def _mixed(grad: Array, x: Array, of_grad: Array, of_x: Array, rest: Array) -> Array:
    out, kind = np.empty(x.shape, x.dtype), x.dtype
    numbers = [np.ascontiguousarray(a.astype(kind)) for a in (of_grad, of_x, rest)]
    _by_planes(fast_norms.mix_channels, (_planes(grad), _planes(x), *numbers, _planes(out)))
    return out


def batch_norm_backward(
    grad: Array,
    x: Array,
    mean: Array,
    rstd: Array,
    weight: Array | None,
    needs: Needs,
    training: bool,
) -> Grads:
    mean, wide = mean.reshape(-1), rstd.reshape(-1).astype(np.float64)
    first, second = (np.sum(a, axis=0) for a in _sums(grad, x, mean[None]))
    scale = wide if weight is None else wide * weight
    to_x = None
    if needs[0] and not training:
        to_x = scaled(grad, scale[None], np.zeros_like(scale)[None])
    elif needs[0]:
        count = x.size // x.shape[1]
        of_x = -scale * wide * wide * second / count
        rest = -scale * first / count - of_x * mean
        to_x = _mixed(grad, x, scale[None], of_x[None], rest[None])
    return (
        to_x,
        (second * wide).astype(x.dtype) if needs[1] else None,
        first.astype(x.dtype) if needs[2] else None,
    )


def _by_channel(numbers: Array, channels: int) -> Array:
    """Numbers of each sample's groups, repeated for each channel of the group."""
    return np.repeat(numbers, channels // numbers.shape[1], axis=1)


def group_norm(
    x: Array, groups: int, weight: Array | None, bias: Array | None, eps: float
) -> tuple[Array, Array, Array]:
    samples, channels = x.shape[:2]
    mean, variance = _moments_of(np.ascontiguousarray(x).reshape(1, samples * groups, -1))
    mean = mean.reshape(samples, groups)
    rstd = (1 / np.sqrt(variance + eps)).reshape(samples, groups)
    scale = _by_channel(rstd, channels)
    scale = scale if weight is None else scale * weight
    shift = -_by_channel(mean, channels) * scale
    return scaled(x, scale, shift if bias is None else shift + bias), mean, rstd.astype(x.dtype)


def group_norm_backward(
    grad: Array,
    x: Array,
    mean: Array,
    rstd: Array,
    weight: Array | None,
    groups: int,
    needs: Needs,
) -> Grads:
    samples, channels = x.shape[:2]
    wide = _by_channel(rstd.astype(np.float64), channels)
    means = _by_channel(mean, channels)
    first, second = _sums(grad, x, means)
    to_x = None
    if needs[0]:
        shape = (samples, groups, channels // groups)
        weighed = (first, second) if weight is None else (first * weight, second * weight)
        one, other = (_by_channel(a.reshape(shape).sum(2), channels) for a in weighed)
        count = x.size // (samples * groups)
        of_x = -(wide**3) * other / count
        rest = -wide * one / count - of_x * means
        to_x = _mixed(grad, x, wide if weight is None else wide * weight, of_x, rest)
    return (
        to_x,
        (second * wide).sum(0).astype(x.dtype) if needs[1] else None,
        first.sum(0).astype(x.dtype) if needs[2] else None,
    )
