"""Values brought to mean 0 and variance 1: of a layer, of a batch's channels, of channel groups.

All arrays of a call have one dtype, float32 or float64. `rstd` is one over the deviation. A
gradient that is not needed is None.
"""

from __future__ import annotations

import math
from typing import Any, Final, TypeAlias

import numpy as np

from gradscope.runtime.core.kernels.spread import spread
from gradscope.runtime.core.kernels.support import Array, Family, quiet

Grads: TypeAlias = tuple[Array | None, Array | None, Array | None]
Needs: TypeAlias = tuple[bool, ...]
FAST: Final = Family("layers.fast_norms", few=1 << 12)
"""Compiled kernels, for arrays that are worth them; what else is here are their plain twins."""
COST: Final = 0.4
"""Nanoseconds they take for one element."""


def _pays(x: Array) -> bool:
    return x.dtype.kind == "f" and FAST.wins(x.size) and x.shape[-1] > 1


def _has_planes(x: Array) -> bool:
    """Whether a channel of a sample is more than one number, so that there are rows to go over."""
    return x.ndim > 2 and _pays(x) and x.size > x.shape[0] * x.shape[1]


@quiet
def _moments(x: Array, dims: tuple[int, ...]) -> tuple[Array, Array, Array]:
    """The mean, what is left without it, and the variance; the dims stay, with size 1."""
    mean = np.mean(x, axis=dims, keepdims=True)
    centred = x - mean
    return mean, centred, np.mean(centred * centred, axis=dims, keepdims=True)


@quiet
def _rstd(variance: Array, eps: float) -> Array:
    return np.asarray(1 / np.sqrt(variance + variance.dtype.type(eps)))


def _turned(grad: Array, normal: Array, rstd: Array, dims: tuple[int, ...]) -> Array:
    """The gradient of what was normalized, from that of what came of it."""
    along = np.mean(grad * normal, axis=dims, keepdims=True)
    made = grad - np.mean(grad, axis=dims, keepdims=True)
    made -= normal * along
    made *= rstd
    return made


# -- over the last dims --------------------------------------------------------------------------


def layer_norm(
    x: Array, count: int, weight: Array | None, bias: Array | None, eps: float
) -> tuple[Array, Array, Array]:
    """Normalize each sample over its last `count` dims; return mean and rstd too."""
    if _pays(x):
        return _fast_layer_norm(x, count, weight, bias, eps)
    dims = tuple(range(x.ndim - count, x.ndim))
    mean, centred, variance = _moments(x, dims)
    rstd = _rstd(variance, eps)
    centred *= rstd
    if weight is not None:
        centred *= weight
    if bias is not None:
        centred += bias
    return centred, mean, rstd


def layer_norm_backward(
    grad: Array,
    x: Array,
    mean: Array,
    rstd: Array,
    weight: Array | None,
    count: int,
    needs: Needs,
) -> Grads:
    """Return the gradients of x, weight and bias."""
    if needs[0] and _pays(x):
        return _fast_layer_norm_backward(grad, x, mean, rstd, weight, count, needs)
    dims = tuple(range(x.ndim - count, x.ndim))
    before = tuple(range(x.ndim - count))
    normal = (x - mean) * rstd
    scaled = grad if weight is None else grad * weight
    return (
        _turned(scaled, normal, rstd, dims) if needs[0] else None,
        np.sum(grad * normal, axis=before) if needs[1] else None,
        np.sum(grad, axis=before) if needs[2] else None,
    )


# -- over a batch, channel by channel ------------------------------------------------------------


def of_channels(vector: Array, ndim: int) -> Array:
    """One number per channel, as it stands beside a batch whose dim 1 are the channels."""
    return vector.reshape(-1, *(1 for _ in range(ndim - 2)))


def batch_moments(x: Array, eps: float) -> tuple[Array, Array, Array]:
    """Return each channel's mean, rstd and variance."""
    if _has_planes(x):
        mean, variance = _fast_moments(_planes(x))
        return mean, (1 / np.sqrt(variance + eps)).astype(x.dtype), variance.astype(x.dtype)
    dims = (0, *range(2, x.ndim))
    mean, _, variance = _moments(x, dims)
    return mean.reshape(-1), _rstd(variance, eps).reshape(-1), variance.reshape(-1)


def batch_norm(
    x: Array, mean: Array, rstd: Array, weight: Array | None, bias: Array | None
) -> Array:
    """Normalize channels whose mean and rstd are known."""
    scale = rstd if weight is None else rstd * weight
    if _has_planes(x):
        shift = -mean * scale if bias is None else bias - mean * scale
        return _scaled(x, scale[None], shift[None])
    made = x - of_channels(mean, x.ndim)
    made *= of_channels(scale, x.ndim)
    if bias is not None:
        made += of_channels(bias, x.ndim)
    return made


def batch_norm_backward(
    grad: Array,
    x: Array,
    mean: Array,
    rstd: Array,
    weight: Array | None,
    needs: Needs,
    training: bool,
) -> Grads:
    """Return the gradients of x, weight and bias; if not training, mean and rstd are constants."""
    if _has_planes(x):
        return _fast_batch_norm_backward(grad, x, mean, rstd, weight, needs, training)
    dims = (0, *range(2, x.ndim))
    by_channel = of_channels(rstd, x.ndim)
    normal = (x - of_channels(mean, x.ndim)) * by_channel
    to_x = None
    if needs[0]:
        scaled = grad if weight is None else grad * of_channels(weight, x.ndim)
        to_x = _turned(scaled, normal, by_channel, dims) if training else scaled * by_channel
    return (
        to_x,
        np.sum(grad * normal, axis=dims) if needs[1] else None,
        np.sum(grad, axis=dims) if needs[2] else None,
    )


# -- over groups of channels ---------------------------------------------------------------------


def group_norm(
    x: Array, groups: int, weight: Array | None, bias: Array | None, eps: float
) -> tuple[Array, Array, Array]:
    """Normalize each group of channels of each sample; return mean and rstd too."""
    if _has_planes(x):
        return _fast_group_norm(x, groups, weight, bias, eps)
    split = _in_groups(x, groups)
    mean, centred, variance = _moments(split, (2, 3))
    rstd = _rstd(variance, eps)
    centred *= rstd
    made = centred.reshape(x.shape)
    if weight is not None:
        made *= of_channels(weight, x.ndim)
    if bias is not None:
        made += of_channels(bias, x.ndim)
    return made, mean.reshape(mean.shape[:2]), rstd.reshape(rstd.shape[:2])


def _in_groups(x: Array, groups: int) -> Array:
    samples, channels = x.shape[:2]
    size = int(np.prod(x.shape[2:], dtype=int))
    return x.reshape(samples, groups, channels // groups, size)


def group_norm_backward(
    grad: Array,
    x: Array,
    mean: Array,
    rstd: Array,
    weight: Array | None,
    groups: int,
    needs: Needs,
) -> Grads:
    """Return the gradients of x, weight and bias."""
    if _has_planes(x):
        return _fast_group_norm_backward(grad, x, mean, rstd, weight, groups, needs)
    by_group = rstd.reshape(*rstd.shape, 1, 1)
    normal = (_in_groups(x, groups) - mean.reshape(by_group.shape)) * by_group
    scaled = grad if weight is None else grad * of_channels(weight, x.ndim)
    to_x = None
    if needs[0]:
        to_x = _turned(_in_groups(scaled, groups), normal, by_group, (2, 3)).reshape(x.shape)
    dims = (0, *range(2, x.ndim))
    return (
        to_x,
        np.sum(grad * normal.reshape(x.shape), axis=dims) if needs[1] else None,
        np.sum(grad, axis=dims) if needs[2] else None,
    )


# -- by compiled kernels -------------------------------------------------------------------------


def _beside(vector: Array | None, value: float, size: int, x: Array) -> Array:
    """A vector in the dtype of x; one that is not there as so many times `value`."""
    if vector is None:
        return np.full(size, value, x.dtype)
    return np.ascontiguousarray(vector, x.dtype).reshape(-1)


def _fast_layer_norm(
    x: Array, count: int, weight: Array | None, bias: Array | None, eps: float
) -> tuple[Array, Array, Array]:
    lead, width = x.shape[: x.ndim - count], math.prod(x.shape[x.ndim - count :])
    out = np.empty(x.shape, x.dtype)
    mean, rstd = (np.empty((*lead, *(1 for _ in range(count))), x.dtype) for _ in range(2))
    rows, made = np.ascontiguousarray(x).reshape(-1, width), out.reshape(-1, width)
    means, rstds = mean.reshape(-1), rstd.reshape(-1)
    vectors = _beside(weight, 1, width, x), _beside(bias, 0, width, x)
    kernel = FAST.kernels.layer_norm

    def part(first: int, last: int) -> None:
        some = slice(first, last)
        kernel(rows[some], *vectors, eps, made[some], means[some], rstds[some])

    spread(part, len(rows), width * COST)
    return out, mean, rstd


def _fast_layer_norm_backward(
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
    kernel, block = FAST.kernels.layer_norm_backward, FAST.kernels.ROWS
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


def _scaled(x: Array, scale: Array, shift: Array) -> Array:
    out = np.empty(x.shape, x.dtype)
    kind = x.dtype
    arrays = (_planes(x), scale.astype(kind), shift.astype(kind), _planes(out))
    _by_planes(FAST.kernels.scale_channels, arrays)
    return out


def _by_planes(kernel: Any, arrays: tuple[Array, ...]) -> None:
    """Call a kernel for all channels of all samples; the first array has all their elements."""
    planes = arrays[0].shape[0] * arrays[0].shape[1]
    cost = arrays[0].shape[2] * COST
    spread(lambda first, last: kernel(*arrays, first, last), planes, cost)


def _fast_moments(x: Array) -> tuple[Array, Array]:
    """The mean of each channel, and its variance in double precision."""
    samples, channels, size = x.shape
    mean, variance = np.empty(channels, x.dtype), np.empty(channels)
    kernel, cost = FAST.kernels.batch_moments, samples * size * COST
    spread(lambda first, last: kernel(x, mean, variance, first, last), channels, cost)
    return mean, variance


def _sums(grad: Array, x: Array, means: Array) -> tuple[Array, Array]:
    """For each sample's channels the sums of grad and of grad * (x - mean), in double precision."""
    of_grad, of_product = (np.empty(x.shape[:2]) for _ in range(2))
    arrays = (_planes(grad), _planes(x), means.astype(x.dtype), of_grad, of_product)
    _by_planes(FAST.kernels.channel_sums, arrays)
    return of_grad, of_product


def _mixed(grad: Array, x: Array, of_grad: Array, of_x: Array, rest: Array) -> Array:
    out, kind = np.empty(x.shape, x.dtype), x.dtype
    numbers = [np.ascontiguousarray(a.astype(kind)) for a in (of_grad, of_x, rest)]
    _by_planes(FAST.kernels.mix_channels, (_planes(grad), _planes(x), *numbers, _planes(out)))
    return out


def _fast_batch_norm_backward(
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
        to_x = _scaled(grad, scale[None], np.zeros_like(scale)[None])
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
    """Numbers of each sample's groups, once for each channel of the group."""
    return np.repeat(numbers, channels // numbers.shape[1], axis=1)


def _fast_group_norm(
    x: Array, groups: int, weight: Array | None, bias: Array | None, eps: float
) -> tuple[Array, Array, Array]:
    samples, channels = x.shape[:2]
    mean, variance = _fast_moments(np.ascontiguousarray(x).reshape(1, samples * groups, -1))
    mean = mean.reshape(samples, groups)
    rstd = (1 / np.sqrt(variance + eps)).reshape(samples, groups)
    scale = _by_channel(rstd, channels)
    scale = scale if weight is None else scale * weight
    shift = -_by_channel(mean, channels) * scale
    return _scaled(x, scale, shift if bias is None else shift + bias), mean, rstd.astype(x.dtype)


def _fast_group_norm_backward(
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
