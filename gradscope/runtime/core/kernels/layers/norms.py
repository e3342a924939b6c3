"""Normalizations to mean 0 and variance 1: of layers, of channels of a batch, of channel groups.

All arrays of a call have one dtype, float32 or float64. `rstd` is one over the standard deviation.
A gradient that is not needed is None.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import numpy as np

from gradscope.runtime.core.kernels.support import Array, Family, quiet

Grads: TypeAlias = tuple[Array | None, Array | None, Array | None]
Needs: TypeAlias = tuple[bool, ...]
FAST: Final = Family("layers.norms", few=1 << 12)
"""The same by compiled kernels, for large arrays."""


def _pays(x: Array) -> bool:
    return x.dtype.kind == "f" and FAST.wins(x.size) and x.shape[-1] > 1


def _has_planes(x: Array) -> bool:
    """Whether a channel of a sample has more than one number."""
    return x.ndim > 2 and _pays(x) and x.size > x.shape[0] * x.shape[1]


@quiet
def _moments(x: Array, dims: tuple[int, ...]) -> tuple[Array, Array, Array]:
    """The mean, the deviations from it, and the variance; the dims stay with size 1."""
    mean = np.mean(x, axis=dims, keepdims=True)
    centred = x - mean
    return mean, centred, np.mean(centred * centred, axis=dims, keepdims=True)


@quiet
def _rstd(variance: Array, eps: float) -> Array:
    return np.asarray(1 / np.sqrt(variance + variance.dtype.type(eps)))


def _turned(grad: Array, normal: Array, rstd: Array, dims: tuple[int, ...]) -> Array:
    """The gradient of the input, from that of the normalized values."""
    along = np.mean(grad * normal, axis=dims, keepdims=True)
    made = grad - np.mean(grad, axis=dims, keepdims=True)
    made -= normal * along
    made *= rstd
    return made


# -- over the last dims --------------------------------------------------------------------------


def layer_norm(
    x: Array, count: int, weight: Array | None, bias: Array | None, eps: float
) -> tuple[Array, Array, Array]:
    """Normalize each sample over its last `count` dims. Also return mean and rstd."""
    if _pays(x):
        return FAST.kernels.layer_norm(x, count, weight, bias, eps)
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
        return FAST.kernels.layer_norm_backward(grad, x, mean, rstd, weight, count, needs)
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
    """One number per channel, broadcastable to a batch whose dim 1 are the channels."""
    return vector.reshape(-1, *(1 for _ in range(ndim - 2)))


def batch_moments(x: Array, eps: float) -> tuple[Array, Array, Array]:
    """Return each channel's mean, rstd and variance."""
    if _has_planes(x):
        mean, variance = FAST.kernels.moments(x)
        return mean, (1 / np.sqrt(variance + eps)).astype(x.dtype), variance.astype(x.dtype)
    dims = (0, *range(2, x.ndim))
    mean, _, variance = _moments(x, dims)
    return mean.reshape(-1), _rstd(variance, eps).reshape(-1), variance.reshape(-1)


def batch_norm(
    x: Array, mean: Array, rstd: Array, weight: Array | None, bias: Array | None
) -> Array:
    """Normalize channels with given mean and rstd."""
    scale = rstd if weight is None else rstd * weight
    if _has_planes(x):
        shift = -mean * scale if bias is None else bias - mean * scale
        return FAST.kernels.scaled(x, scale[None], shift[None])
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
    """Return the gradients of x, weight and bias. If not training, mean and rstd are constants."""
    if _has_planes(x):
        return FAST.kernels.batch_norm_backward(grad, x, mean, rstd, weight, needs, training)
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
    """Normalize each group of channels of each sample. Also return mean and rstd."""
    if _has_planes(x):
        return FAST.kernels.group_norm(x, groups, weight, bias, eps)
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
        return FAST.kernels.group_norm_backward(grad, x, mean, rstd, weight, groups, needs)
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
