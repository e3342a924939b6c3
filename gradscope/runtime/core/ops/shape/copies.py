"""Copies: clone, repeat, roll, flip."""

from __future__ import annotations

import numpy as np

from gradscope.runtime.core.calls.declare import LINEAR, METHOD_ONLY, family, op, w
from gradscope.runtime.core.dtypes import memory_formats as formats
from gradscope.runtime.core.errors.dtypes import unknown_dtype
from gradscope.runtime.core.ops.index.gathering import zeros_of
from gradscope.runtime.core.rows.offered import METHODS, both, function, method
from gradscope.runtime.core.rows.traits import AS_THE_FIRST, ROW_BY_ROW
from gradscope.runtime.core.state.array_calls import layout_only
from gradscope.runtime.core.tensors.dims import sizes, wrapped, wrapped_all
from gradscope.runtime.core.tensors.placement import wrapped_on


def _clone(self, *, memory_format=None):
    if memory_format is not None:
        formats.checked("clone", memory_format)
    return (
        self.copy("C")
        if memory_format is None and self.flags.c_contiguous
        else formats.copied(self, memory_format)
    )


def _repeat(self, repeats):
    if len(repeats) < self.ndim:
        raise RuntimeError(
            "Number of dimensions of repeat dims can not be smaller than number of dimensions of "
            "tensor"
        )
    if min(repeats, default=0) < 0:
        raise RuntimeError(
            "Trying to create tensor with negative dimension "
            f"{next(n * s for n, s in zip(repeats, _led(self, repeats), strict=True) if n < 0)}: "
            f"{[n * s for n, s in zip(repeats, _led(self, repeats), strict=True)]}"
        )
    return np.tile(self, repeats)


def _led(self, repeats):
    """The sizes, with a 1 for each leading dim that repeating adds."""
    return (1,) * (len(repeats) - self.ndim) + self.shape


def _summed_over_repeats(grad, repeats, shape):
    """Every dim as (repeats, size), summed over the first."""
    if 0 in repeats:
        return zeros_of(grad, shape)
    lead = len(repeats) - len(shape)
    split: list[int] = []
    summed: list[int] = []
    for dim, often in enumerate(repeats):
        if dim < lead or often != 1:
            summed.append(len(split))
            split.append(often)
        if dim >= lead:
            split.append(shape[dim - lead])
    return grad.reshape(tuple(split)).sum(tuple(summed)) if summed else grad


def _roll(self, shifts, dims=()):
    if not dims and len(shifts) == 1:
        return np.roll(self, shifts[0])
    if not shifts:
        raise RuntimeError("`shifts` required")
    if len(shifts) != len(dims):
        raise RuntimeError(
            f"shifts and dimensions must align. shifts: {len(shifts)}, dims:{len(dims)}"
        )
    if self.ndim == 0:
        raise IndexError(f"Dimension specified as {dims[0]} but tensor has no dimensions")
    return np.roll(self, shifts, tuple(wrapped(dim, self.ndim) for dim in dims))


def _rolled_back(grad, shifts, dims):
    return w.roll(grad, tuple(-s for s in reversed(shifts)), tuple(reversed(dims)))


def _flip(self, dims):
    axes = wrapped_all(dims, self.ndim)
    return np.flip(self, axes).copy("K") if self.ndim else self.copy()


clone = op("CloneBackward0", _clone, LINEAR, self=lambda grad: grad)
repeat__default = op(
    "RepeatBackward0",
    _repeat,
    LINEAR,
    METHOD_ONLY,
    ROW_BY_ROW,
    self=lambda grad, repeats, self_shape: _summed_over_repeats(grad, repeats, self_shape),
)
roll__default = op(
    "RollBackward0",
    _roll,
    LINEAR,
    ROW_BY_ROW,
    self=lambda grad, shifts, dims: _rolled_back(grad, shifts, dims),
)
flip__default = op(
    "FlipBackward0", _flip, LINEAR, AS_THE_FIRST, self=lambda grad, dims: w.flip(grad, dims)
)
family(globals())


@method
@layout_only
def contiguous(self, memory_format=formats.contiguous_format):
    """The tensor itself if it has this memory format, otherwise a copy that has it."""
    formats.checked("contiguous", memory_format)
    if memory_format is formats.preserve_format:
        raise RuntimeError("preserve memory format is unsupported by the contiguous operator")
    if formats.is_ordered(self._array, memory_format):
        return self
    return clone(self, memory_format=memory_format)


@method
def repeat(self, *repeats):
    return repeat__default(self, sizes(repeats))


@function
def tile(input, dims):
    """Repeat; missing leading repeats are ones."""
    dims = (1,) * (input.dim() - len(dims)) + tuple(dims)
    return repeat__default(input, dims)


METHODS["tile"] = lambda self, *dims: tile(self, sizes(dims, "tile"))


@both
def roll(input, shifts, dims=()):
    return roll__default(input, _tuple(shifts), _tuple(dims or ()) if dims != 0 else (0,))


def _tuple(numbers):
    return (numbers,) if isinstance(numbers, int) else tuple(numbers)


@function
def flip(input, dims):
    return flip__default(input, (dims,) if isinstance(dims, int) else tuple(dims))


METHODS["flip"] = lambda self, *dims, **named: flip__default(
    self, sizes(dims or named["dims"], "flip")
)


def _reversed(self):
    return flip__default(self, (0,)) if self.dim() else self


METHODS["__reversed__"] = _reversed


@both
def fliplr(input):
    if input.dim() < 2:
        raise RuntimeError("Input must be >= 2-d.")
    return flip__default(input, (1,))


@both
def flipud(input):
    if input.dim() < 1:
        raise RuntimeError("Input must be >= 1-d.")
    return flip__default(input, (0,))


@function
def repeat_interleave(input, repeats=None, dim=None, *, output_size=None):
    """Repeat every element, or slice along `dim`, several times in a row."""
    if repeats is None:
        return _interleaved_places(input)
    if dim is None:
        input, dim = input.flatten(), 0
    if isinstance(repeats, int):
        return _evenly_interleaved(input, repeats, wrapped(dim, input.dim()))
    size = input._array.shape[wrapped(dim, input.dim())] if input.dim() else 1
    if repeats.numel() == 1:
        repeats = repeats.reshape(1).expand(size)
    if repeats.dim() > 1 or repeats.numel() != size:
        raise RuntimeError(
            "repeats must have the same size as input along dim, but got repeats.size(0) = "
            f"{repeats.numel()} and input.size({dim}) = {size}"
        )
    return input.index_select(dim, _interleaved_places(repeats))


def _repeat_interleave_method(self, repeats, dim=None, *, output_size=None):
    return repeat_interleave(self, repeats, dim, output_size=output_size)


METHODS["repeat_interleave"] = _repeat_interleave_method


def _interleaved_places(repeats):
    if repeats.dim() != 1:
        raise RuntimeError("repeat_interleave only accept 1D vector as repeat")
    counts = repeats._array
    if counts.dtype.kind not in "iu":
        raise unknown_dtype("repeat_interleave_cpu", counts)
    if counts.size and counts.min() < 0:
        raise RuntimeError("repeats can not be negative")
    return wrapped_on(np.repeat(np.arange(counts.size), counts), repeats.device)


def _evenly_interleaved(input, repeats, dim):
    if repeats < 0:
        raise RuntimeError("Repeats must be non-negative")
    shape = input._array.shape or (1,)
    if not input.dim():
        input = input.flatten()
    spread = (*shape[: dim + 1], repeats, *shape[dim + 1 :])
    copied = clone(input.unsqueeze(dim + 1).expand(spread), memory_format=formats.contiguous_format)
    return copied.flatten(dim, dim + 1)
