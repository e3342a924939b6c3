"""Padding: F.pad with its four modes."""

from __future__ import annotations

import numpy as np

from gradscope.runtime.core.calls.declare import BY_HAND, family, jvp, op, w
from gradscope.runtime.core.ops.shape.mirroring import ROWS
from gradscope.runtime.core.ops.shape.slicing import slice__default
from gradscope.runtime.core.ops.windows.pool_arguments import ints
from gradscope.runtime.core.rows.offered import nn_function
from gradscope.runtime.core.rows.traits import AS_CHANNELS
from gradscope.runtime.core.tensors.making.elements import element


def _check_pad(array, pad, odd):
    if len(pad) % 2:
        raise RuntimeError(odd)
    if len(pad) > 2 * array.ndim:
        raise RuntimeError(
            "Padding length should be less than or equal to two times the input dimension but got "
            f"padding length {len(pad)} and input of dimension {array.ndim}"
        )


def _by_dim(array, pad):
    """(before, after) for every dim: the pairs of `pad` are for the last dims, last first."""
    pairs = list(zip(pad[::2], pad[1::2], strict=True))[::-1]
    return [(0, 0)] * (array.ndim - len(pairs)) + pairs


def _constant(self, pad, value=0):
    _check_pad(self, pad, f"Length of pad must be even but instead it equals {len(pad)}")
    pairs = _by_dim(self, pad)
    shape = tuple(size + a + b for size, (a, b) in zip(self.shape, pairs, strict=True))
    if min(shape, default=0) < 0:
        raise RuntimeError("narrow(): length must be non-negative.")
    made = np.full(shape, element(value, self.dtype), self.dtype)
    kept = tuple(slice(max(-a, 0), size - max(-b, 0)) for size, (a, b) in _sized(self, pairs))
    inner = tuple(slice(max(a, 0), size - max(b, 0)) for size, (a, b) in _sized(made, pairs))
    made[inner] = self[kept]
    return made


def _sized(array, pairs):
    return zip(array.shape, pairs, strict=True)


constant_pad_nd = op(
    "ConstantPadNdBackward0",
    _constant,
    BY_HAND,
    AS_CHANNELS,
    jvp(lambda self_t, pad: w.constant_pad_nd(self_t, pad)),
    self=lambda grad, pad: w.constant_pad_nd(grad, tuple(-p for p in pad)),
)

family(globals())


def _circular(input, pad):
    """Circular padding."""
    pairs = _by_dim(input._array, pad)
    shape = [size + a + b for size, (a, b) in _sized(input._array, pairs)]
    padded = range(len(pairs) - len(pad) // 2, len(pairs))
    for dim in padded:
        a, b = pairs[dim]
        if max(a, b) > input.size(dim):
            raise RuntimeError("Padding value causes wrapping around more than once.")
        if shape[dim] < 0:
            raise RuntimeError("Negative padding value is resulting in an empty dimension")
    made = input.new_empty(shape)
    inner, outer = input, made
    for dim in reversed(padded):
        a, b = pairs[dim]
        outer = slice__default(outer, dim, max(a, 0), outer.size(dim) - max(b, 0), 1)
        inner = slice__default(inner, dim, max(-a, 0), inner.size(dim) - max(-b, 0), 1)
    outer.copy_(inner)
    for dim, (a, b) in reversed(list(enumerate(pairs))):
        width, before, behind = made.size(dim), max(a, 0), max(b, 0)
        if a > 0:
            tail = slice__default(made, dim, width - behind - a, width - behind, 1)
            slice__default(made, dim, 0, a, 1).copy_(tail)
        if b > 0:
            head = slice__default(made, dim, before, before + b, 1)
            slice__default(made, dim, width - b, width, 1).copy_(head)
    return made


MIRRORED = {"reflect": "reflection", "replicate": "replication"}


@nn_function
def pad(input, pad, mode="constant", value=None):
    """Pad with a number, by reflection, by replication, or circularly."""
    if not isinstance(pad, list | tuple):
        raise TypeError(
            f"pad(): argument 'pad' (position 2) must be tuple of ints, not {type(pad).__name__}"
        )
    pad = ints(pad, 0, "pad", "pad", 2)
    _check_pad(input._array, pad, "Padding length must be divisible by 2")
    if mode == "constant":
        return constant_pad_nd(input, pad, 0 if value is None else value)
    if value is not None and value != 0:
        raise RuntimeError(f'Padding mode "{mode}" doesn\'t take in value argument')
    if mode not in (*MIRRORED, "circular"):
        raise NotImplementedError(f"Unrecognised padding mode {mode}")
    dims = len(pad) // 2
    if input.dim() not in (dims + 1, dims + 2) or not 1 <= dims <= 3:
        raise NotImplementedError(
            f"Padding size {len(pad)} is not supported for {input.dim()}D input tensor."
        )
    if mode == "circular":
        return _circular(input, pad)
    return ROWS[f"{MIRRORED[mode]}_pad{dims}d"](input, pad)
