"""Tensors with an edge around them: F.pad in its four modes."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradscope.runtime.dims import text
from gradscope.runtime.op import (
    BY_HAND,
    INTERNAL,
    LINEAR,
    family,
    jvp,
    op,
    w,
)
from gradscope.runtime.ops import nn_function
from gradscope.runtime.ops.gathering import zeros_of
from gradscope.runtime.ops.slicing import slice__default


def _check_pad(array, pad):
    if len(pad) % 2:
        raise RuntimeError("Padding length must be divisible by 2")
    if len(pad) > 2 * array.ndim:
        raise RuntimeError(
            "Padding length should be less than or equal to two times the input dimension but got "
            f"padding length {len(pad)} and input of dimension {array.ndim}"
        )


def _by_dim(array, pad):
    """(before, after) for every dim: the pairs of `pad` belong to the last dims, last first."""
    pairs = list(zip(pad[::2], pad[1::2], strict=True))[::-1]
    return [(0, 0)] * (array.ndim - len(pairs)) + pairs


def _constant(self, pad, value=0):
    _check_pad(self, pad)
    pairs = _by_dim(self, pad)
    shape = tuple(size + a + b for size, (a, b) in zip(self.shape, pairs, strict=True))
    if min(shape, default=0) < 0:
        raise RuntimeError("narrow(): length must be non-negative.")
    made = np.full(shape, value, self.dtype)
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
    jvp(lambda self_t, pad: w.constant_pad_nd(self_t, pad)),
    self=lambda grad, pad: w.constant_pad_nd(grad, tuple(-p for p in pad)),
)

pad_edges: Any = np.pad  # its types know the names of modes only as literals
_NUMPY_MODES = {"reflection": "reflect", "replication": "edge"}


def _mirrored(kind):
    """The kernel that repeats what is inside: mirrored at the edge, or the edge itself."""

    def kernel(self, padding):
        pairs = _by_dim(self, padding)
        trimmed = self[
            tuple(slice(max(-a, 0), s - max(-b, 0)) for s, (a, b) in _sized(self, pairs))
        ]
        wide = [(max(a, 0), max(b, 0)) for a, b in pairs]
        if kind == "reflection":
            _check_reflection(self, padding, wide)
        return pad_edges(trimmed, wide, _NUMPY_MODES[kind])

    return kernel


def _check_reflection(self, padding, wide):
    for dim, (size, pair) in enumerate(_sized(self, wide)):
        if max(pair) >= size > 0 and max(pair):
            raise RuntimeError(
                "Argument #4: Padding size should be less than the corresponding input dimension, "
                f"but got: padding ({pair[0]}, {pair[1]}) at dimension {dim} of input "
                f"{text(self.shape)}"
            )


def _mirrored_back(kind):
    """Every element's gradient is the sum of those of the places that show it."""
    forward = _mirrored(kind)

    def kernel(grad_output, self, padding):
        source = forward(np.arange(self.size).reshape(self.shape), padding)
        made = np.zeros(self.size, grad_output.dtype)
        np.add.at(made, source, grad_output)
        return made.reshape(self.shape)

    return kernel


def _rows(kind, dims):
    """The row of one mode and number of dims, and that of its gradient."""
    title, name = kind.capitalize(), f"{kind}_pad{dims}d"
    back_name = f"{name}_backward"
    padded = op(
        f"{title}Pad{dims}DBackward0",
        _mirrored(kind),
        LINEAR,
        self=lambda grad, self, padding: getattr(w, back_name)(grad, self, padding),
    )
    backward = op(
        f"{title}Pad{dims}DBackwardBackward0",
        _mirrored_back(kind),
        LINEAR,
        INTERNAL,
        grad_output=lambda grad, padding: getattr(w, name)(grad, padding),
        self=lambda grad, self_shape: zeros_of(grad, self_shape),
    )
    return {name: padded, back_name: backward}


PADDED = {
    k: row for kind in _NUMPY_MODES for dims in (1, 2, 3) for k, row in _rows(kind, dims).items()
}
globals().update(PADDED)
family(globals())


def _circular(input, pad):
    """The tensor as a ring: what leaves at one side comes back at the other."""
    pairs = _by_dim(input._array, pad)
    shape = [size + a + b for size, (a, b) in _sized(input._array, pairs)]
    made = input.new_empty(shape)
    inner, outer = input, made
    padded = range(len(pairs) - len(pad) // 2, len(pairs))
    for dim in reversed(padded):
        a, b = pairs[dim]
        if max(a, b) > input.size(dim):
            raise RuntimeError("Padding value causes wrapping around more than once.")
        outer = slice__default(outer, dim, max(a, 0), outer.size(dim) - max(b, 0), 1)
        inner = slice__default(inner, dim, max(-a, 0), inner.size(dim) - max(-b, 0), 1)
    outer.copy_(inner)
    for dim, (a, b) in reversed(list(enumerate(pairs))):
        width = made.size(dim)
        if a > 0:
            tail = slice__default(made, dim, width - b - a, width - b, 1)
            slice__default(made, dim, 0, a, 1).copy_(tail)
        if b > 0:
            head = slice__default(made, dim, a, a + b, 1)
            slice__default(made, dim, width - b, width, 1).copy_(head)
    return made


@nn_function
def pad(input, pad, mode="constant", value=None):
    """The tensor with an edge: of a number, mirrored, repeated, or going round."""
    if mode == "constant":
        return constant_pad_nd(input, tuple(pad), 0 if value is None else value)
    if value is not None and value != 0:
        raise RuntimeError(f'Padding mode "{mode}" doesn\'t take in value argument')
    if mode == "circular":
        return _circular(input, tuple(pad))
    dims, names = len(pad) // 2, {"reflect": "reflection", "replicate": "replication"}
    if mode not in names:
        raise NotImplementedError(f"Unrecognised padding mode {mode}")
    if input.dim() not in (dims + 1, dims + 2) or not 1 <= dims <= 3:
        raise NotImplementedError(
            "Only 2D, 3D, 4D, 5D padding with non-constant padding are supported for now"
        )
    return PADDED[f"{names[mode]}_pad{dims}d"](input, tuple(pad))
