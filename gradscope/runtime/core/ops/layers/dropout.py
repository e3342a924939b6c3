"""Dropout of elements and of whole channels, and alpha dropout for SELU."""

from __future__ import annotations

import math

from gradscope.runtime.core.dtypes.memory_formats import empty_as
from gradscope.runtime.core.ops.random.random import as_it_lies
from gradscope.runtime.core.rows.offered import FUNCTIONS, nn_function
from gradscope.runtime.core.state.array_calls import array_call, layout_only
from gradscope.runtime.core.state.warned import warn
from gradscope.runtime.core.tensors.default_generator import chosen
from gradscope.runtime.core.tensors.placement import wrapped_on
from gradscope.runtime.core.tensors.views.in_place import count_told_write

ALPHA = 1.7580993408473766
"""The negative of SELU's limit at minus infinity."""


def _check(p):
    if p < 0.0 or p > 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")


def _kept(array, p, *, channels):
    """1 for kept elements, 0 for dropped ones, drawn in the order of memory."""
    if channels:
        return chosen(None).bernoulli(1 - p, _channel_shape(array)).astype(array.dtype)
    if array.flags.c_contiguous:
        return chosen(None).bernoulli(1 - p, array.shape).astype(array.dtype)
    noise = empty_as(array, array.dtype)
    target = as_it_lies(noise)
    target[...] = chosen(None).bernoulli(1 - p, target.shape)
    return noise


def _channel_shape(array):
    shape = array.shape
    if len(shape) < 2:
        raise RuntimeError("Feature dropout requires at least 2 dimensions in the input")
    return (*shape[:2], *(1 for _ in shape[2:]))


@array_call
def _noise(array, p, channels, alpha):
    """The factor of an array, and for alpha dropout the term that is added."""
    noise = _kept(array, p, channels=channels)
    kind = noise.dtype.type
    if not alpha:
        noise /= kind(1 - p)
        return noise, None
    scale = 1.0 / math.sqrt((ALPHA * ALPHA * p + 1) * (1 - p))
    shift = (noise - kind(1)) * kind(ALPHA * scale) + kind(ALPHA * scale * p)
    noise *= kind(scale)
    return noise, shift


def _times(input, noise, inplace):
    return input.mul_(noise) if inplace else input.mul(noise)


@layout_only
def _dropped(input, p, train, inplace, channels=False, alpha=False):
    if not 0 <= p <= 1:
        raise RuntimeError(f"dropout probability has to be between 0 and 1, but got {p:g}")
    if not train or p == 0 or input.numel() == 0:
        return input
    if p == 1:
        return _times(input, input.new_zeros(()), inplace)
    noise, shift = _noise(input._array, p, channels, alpha)
    made = _times(input, _written(noise, input, "mul_" if alpha else "div_"), inplace)
    return made.add_(wrapped_on(shift, input.device)) if alpha else made


def _written(noise, input, scaling):
    """The mask as a tensor that was written to twice, as PyTorch's."""
    made = wrapped_on(noise, input.device)
    for writer in ("bernoulli_", scaling):
        count_told_write(made, writer)
    return made


@nn_function
def dropout(input, p=0.5, training=True, inplace=False):
    """Zero each element with probability p, and scale the others so that the mean stays."""
    _check(p)
    return _dropped(input, p, training, inplace)


def _offer(name, **options):
    """Add `torch.<name>` and its in-place twin."""

    def plain(input, p, train):
        return _dropped(input, p, train, False, **options)

    def twin(input, p, train):
        return _dropped(input, p, train, True, **options)

    for made, called in ((plain, name), (twin, f"{name}_")):
        made.__name__ = made.__qualname__ = called
        FUNCTIONS[called] = made


_offer("dropout")
_offer("alpha_dropout", alpha=True)
_offer("feature_dropout", channels=True)
_offer("feature_alpha_dropout", channels=True, alpha=True)


@nn_function
def alpha_dropout(input, p=0.5, training=False, inplace=False):
    """Set elements to SELU's limit, so that mean and variance stay."""
    _check(p)
    return _dropped(input, p, training, inplace, alpha=True)


@nn_function
def feature_alpha_dropout(input, p=0.5, training=False, inplace=False):
    """The same with whole channels."""
    _check(p)
    return _dropped(input, p, training, inplace, channels=True, alpha=True)


@nn_function
def dropout1d(input, p=0.5, training=True, inplace=False):
    """Zero whole channels of sequences."""
    _check(p)
    dims = input.dim()
    if dims not in (2, 3):
        raise RuntimeError(
            f"dropout1d: Expected 2D or 3D input, but received a {dims}D input. Note that "
            "dropout1d exists to provide channel-wise dropout on inputs with 1 spatial dimension, "
            "a channel dimension, and an optional batch dimension (i.e. 2D or 3D inputs)."
        )
    return _of_batch(input, p, training, inplace, batched=dims == 3)


@nn_function
def dropout2d(input, p=0.5, training=True, inplace=False):
    """Zero whole channels of images."""
    _check(p)
    dims = input.dim()
    if dims not in (3, 4):
        warn(_unexpected("dropout2d", dims, 2))
    if dims == 3:
        warn(
            "dropout2d: Received a 3D input to dropout2d and assuming that channel-wise 1D dropout "
            "behavior is desired - input is interpreted as shape (N, C, L), where C is the channel "
            "dim. This behavior will change in a future release to interpret the input as one "
            "without a batch dimension, i.e. shape (C, H, W). To maintain the 1D channel-wise "
            "dropout behavior, please switch to using dropout1d instead."
        )
    return _dropped(input, p, training, inplace, channels=True)


@nn_function
def dropout3d(input, p=0.5, training=True, inplace=False):
    """Zero whole channels of volumes."""
    _check(p)
    dims = input.dim()
    if dims not in (4, 5):
        warn(_unexpected("dropout3d", dims, 3))
    return _of_batch(input, p, training, inplace, batched=dims == 5)


def _unexpected(name, dims, spatial):
    return (
        f"{name}: Received a {dims}-D input to {name}, which is deprecated and will result in an "
        "error in a future release. To retain the behavior and silence this warning, please use "
        f"dropout instead. Note that {name} exists to provide channel-wise dropout on inputs with "
        f"{spatial} spatial dimensions, a channel dimension, and an optional batch dimension (i.e. "
        f"{spatial + 1}D or {spatial + 2}D inputs)."
    )


def _of_batch(input, p, training, inplace, *, batched):
    if batched:
        return _dropped(input, p, training, inplace, channels=True)
    given = input.unsqueeze_(0) if inplace else input.unsqueeze(0)
    made = _dropped(given, p, training, inplace, channels=True)
    return made.squeeze_(0) if inplace else made.squeeze(0)
