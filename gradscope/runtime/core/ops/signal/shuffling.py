"""pixel_shuffle and channel_shuffle."""

from __future__ import annotations

import numpy as np

from gradscope.runtime.core.calls.declare import FUNCTION_ONLY, LINEAR, UNKNOWN, family, op, w
from gradscope.runtime.core.ops.in_formulas import nn_alias, no_derivative
from gradscope.runtime.core.rows.traits import AS_CHANNELS
from gradscope.runtime.core.tensors.dims import text


def _check(array, name, factor, word):
    if array.ndim < 3:
        raise RuntimeError(
            f"{name} expects input to have at least 3 dimensions, but got input with "
            f"{array.ndim} dimension(s)"
        )
    if factor <= 0:
        raise RuntimeError(f"{name} expects a positive {word}, but got {factor}")


def _pixel_shuffle(self, upscale_factor):
    r = upscale_factor
    _check(self, "pixel_shuffle", r, "upscale_factor")
    *batch, channels, height, width = self.shape
    if channels % (r * r):
        raise RuntimeError(
            "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square "
            f"of upscale_factor, but input.size(-3)={channels} is not divisible by {r * r}"
        )
    parts = self.reshape(-1, channels // (r * r), r, r, height, width) if self.size else self
    shape = (*batch, channels // (r * r), height * r, width * r)
    if not self.size:
        return np.empty(shape, self.dtype)
    return np.ascontiguousarray(parts.transpose(0, 1, 4, 2, 5, 3)).reshape(shape)


def _pixel_unshuffle(self, downscale_factor):
    r = downscale_factor
    _check(self, "pixel_unshuffle", r, "downscale_factor")
    *batch, channels, height, width = self.shape
    for side, dim, size in (("height", -2, height), ("width", -1, width)):
        if size % r:
            raise RuntimeError(
                f"pixel_unshuffle expects {side} to be divisible by downscale_factor, but "
                f"input.size({dim})={size} is not divisible by {r}"
            )
    shape = (*batch, channels * r * r, height // r, width // r)
    if not self.size:
        return np.empty(shape, self.dtype)
    parts = self.reshape(-1, channels, height // r, r, width // r, r)
    return np.ascontiguousarray(parts.transpose(0, 1, 3, 5, 2, 4)).reshape(shape)


def _channel_shuffle(self, groups):
    if self.ndim < 3:
        raise RuntimeError(
            f"channel_shuffle expects input with > 2 dims, but got input with sizes "
            f"{text(self.shape)}"
        )
    channels = self.shape[1]
    if groups <= 0:
        raise RuntimeError(
            f"Number of groups to divide channels in must be positive. Value of groups:{groups}"
        )
    if channels % groups:
        raise RuntimeError(
            f"Number of channels must be divisible by groups. Got {channels} channels and "
            f"{groups} groups."
        )
    parts = self.reshape(self.shape[0], groups, channels // groups, *self.shape[2:])
    return np.ascontiguousarray(parts.swapaxes(1, 2)).reshape(self.shape)


pixel_shuffle = op(
    "PixelShuffleBackward0",
    _pixel_shuffle,
    LINEAR,
    AS_CHANNELS,
    FUNCTION_ONLY,
    self=lambda grad, upscale_factor: w.pixel_unshuffle(grad, upscale_factor),
)
pixel_unshuffle = op(
    "PixelUnshuffleBackward0",
    _pixel_unshuffle,
    LINEAR,
    AS_CHANNELS,
    FUNCTION_ONLY,
    self=lambda grad, downscale_factor: w.pixel_shuffle(grad, downscale_factor),
)
channel_shuffle = op(
    "ChannelShuffleBackward0",
    _channel_shuffle,
    LINEAR,
    AS_CHANNELS,
    FUNCTION_ONLY,
    self=lambda grad, groups: w.channel_shuffle(grad, grad.shape[1] // groups),
)
native_channel_shuffle = op(
    "NotImplemented",
    _channel_shuffle,
    UNKNOWN,
    AS_CHANNELS,
    FUNCTION_ONLY,
    self=no_derivative("native_channel_shuffle"),
)
family(globals())
for _made in (pixel_shuffle, pixel_unshuffle, channel_shuffle, native_channel_shuffle):
    nn_alias(_made, _made.__name__)
