"""Splitting a tensor into views: split, chunk, unbind, tensor_split."""

from __future__ import annotations

import numpy as np

from gradscope.runtime.core.calls.declare import LINEAR, family, op, outputs, view, w
from gradscope.runtime.core.dtypes import dtypes
from gradscope.runtime.core.errors.numpy import invalid_combination
from gradscope.runtime.core.ops.shape.slicing import FULL, slice__default
from gradscope.runtime.core.rows.offered import METHODS, both
from gradscope.runtime.core.state.thread import local
from gradscope.runtime.core.tensors.dims import text, wrapped
from gradscope.runtime.core.tensors.memory.storage import VersionCounter
from gradscope.runtime.core.tensors.tensor.tensor import Tensor
from gradscope.runtime.core.tensors.views.inference import is_inference


def _cut(self, dim, ends):
    """Views along one dim that end at these indices."""
    before = (FULL,) * dim
    starts = (0, *ends[:-1])
    return [self[(*before, slice(*ends))] for ends in zip(starts, ends, strict=True)]


def _split(self, split_size, dim=0):
    if self.ndim == 0:
        raise RuntimeError("split expects at least a 1-dimensional tensor")
    if split_size < 0:
        raise RuntimeError(
            f"split expects split_size be non-negative, but got split_size={split_size}"
        )
    dim = wrapped(dim, self.ndim)
    size = self.shape[dim]
    if split_size == 0 and size:
        raise RuntimeError(
            f"split_size can only be 0 if dimension size is 0, but got dimension size of {size}"
        )
    ends = range(split_size, size + split_size, split_size) if size else (0,)
    return _cut(self, dim, tuple(min(end, size) for end in ends))


def _split_with_sizes(self, split_sizes, dim=0):
    if self.ndim == 0:
        raise RuntimeError("split expects at least a 1-dimensional tensor")
    dim = wrapped(dim, self.ndim)
    if sum(split_sizes) != self.shape[dim] or min(split_sizes, default=0) < 0:
        raise RuntimeError(
            f"split_with_sizes expects split_sizes to sum exactly to {self.shape[dim]} (input "
            f"tensor's size at dimension {dim}), but got split_sizes={text(split_sizes)}"
        )
    return _cut(self, dim, tuple(np.cumsum(split_sizes).tolist()))


def _unbind(self, dim=0):
    if self.ndim == 0:
        raise IndexError("Dimension specified as 0 but tensor has no dimensions")
    dim = wrapped(dim, self.ndim)
    before = (FULL,) * dim
    return [self[(*before, i, ...)] for i in range(self.shape[dim])]


SPLIT = {"self": lambda grads, self_shape, split_size, dim: w.cat(grads, dim)}
SPLIT_WITH_SIZES = {"self": lambda grads, self_shape, split_sizes, dim: w.cat(grads, dim)}

split__default = view("SplitBackward0", _split, outputs("*"), **SPLIT)
split_with_sizes = view(
    "SplitWithSizesBackward0", _split_with_sizes, outputs("*"), **SPLIT_WITH_SIZES
)
unbind = view("UnbindBackward0", _unbind, outputs("*"), self=lambda grads, dim: w.stack(grads, dim))
unsafe_split__default = op(
    "UnsafeSplitBackward0",
    _split,
    LINEAR,
    outputs("*"),
    **SPLIT,
)
unsafe_split_with_sizes__default = op(
    "UnsafeSplitWithSizesBackward0",
    _split_with_sizes,
    LINEAR,
    outputs("*"),
    **SPLIT_WITH_SIZES,
)
family(globals())


@both
def split(tensor, split_size_or_sections, dim=0):
    """Pieces of one size, the last may be smaller, or of the given sizes."""
    if isinstance(split_size_or_sections, int):
        return split__default(tensor, split_size_or_sections, dim)
    return split_with_sizes(tensor, tuple(split_size_or_sections), dim)


def _split_method(self, split_size, dim=0):
    return split(self, split_size, dim)


METHODS["split"] = _split_method


def _chunks(tensor, chunks, dim):
    if tensor.dim() == 0:
        raise RuntimeError("chunk expects at least a 1-dimensional tensor")
    if chunks <= 0:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    size = tensor._array.shape[wrapped(dim, tensor.dim())]
    return -(-size // chunks), size


@both
def chunk(input, chunks, dim=0):
    """At most `chunks` pieces of one size."""
    piece, size = _chunks(input, chunks, dim)
    if piece == 0 and size == 0:
        return split_with_sizes(input, (0,) * chunks, dim)
    return split__default(input, piece, dim)


@both
def unsafe_split(tensor, split_size, dim=0):
    """Pieces that autograd treats as separate tensors."""
    return _unsafe(unsafe_split__default, split__default, tensor, split_size, dim)


@both
def unsafe_split_with_sizes(input, split_sizes, dim=0):
    """Pieces of these sizes that autograd treats as separate tensors."""
    way = unsafe_split_with_sizes__default
    return _unsafe(way, split_with_sizes, input, split_sizes, dim)


def _unsafe(row, safe, tensor, sizes, dim):
    """In inference mode, pieces of ordinary tensors are views with separate counters."""
    if not local.state.inference or is_inference(tensor):
        return row(tensor, sizes, dim)
    pieces = safe(tensor, sizes, dim)
    for piece in pieces:
        piece._versions = VersionCounter()
    return pieces


@both
def unsafe_chunk(input, chunks, dim=0):
    piece, size = _chunks(input, chunks, dim)
    if piece == 0 and size == 0:
        return unsafe_split_with_sizes(input, (0,) * chunks, dim)
    return unsafe_split(input, piece, dim)


@both
def tensor_split(input, indices_or_sections, dim=0):
    """A number of pieces, or pieces that end at these indices."""
    if input.dim() == 0:
        raise RuntimeError(
            "tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims"
        )
    at = wrapped(dim, input.dim())
    size = input._array.shape[at]
    if isinstance(indices_or_sections, Tensor):
        indices_or_sections = _places_of(indices_or_sections)
    if isinstance(indices_or_sections, int):
        ends = _even_ends(indices_or_sections, size)
    else:
        ends = [*indices_or_sections, size]
    starts = [0, *ends[:-1]]
    pairs = zip(starts, ends, strict=True)
    return tuple(slice__default(input, at, start, end, 1) for start, end in pairs)


def _places_of(tensor):
    """The number of pieces, or the indices where they end, given as a tensor."""
    if tensor.dtype is not dtypes.int64:
        raise RuntimeError(
            "tensor_split expected tensor_indices_or_sections to have dtype of long, but got "
            f"{tensor.dtype.scalar_name}"
        )
    if tensor.dim() > 1:
        raise RuntimeError(
            "tensor_split expected tensor_indices_or_sections to be a zero-dimensional or "
            f"one-dimensional tensor, but got a tensor with {tensor.dim()} dims"
        )
    return tensor.tolist()


def _even_ends(sections, size):
    if sections <= 0:
        raise RuntimeError(f"number of sections must be larger than 0, got {sections}")
    small, larger = divmod(size, sections)
    return np.cumsum([small + (i < larger) for i in range(sections)]).tolist()


def _along(name, dim, least):
    """hsplit, vsplit and dsplit: tensor_split along a fixed dim."""

    def split_along(input, indices_or_sections):
        if input.dim() < least:
            raise RuntimeError(
                f"torch.{name} requires a tensor with at least {least} dimension, but got a tensor "
                f"with {input.dim()} dimensions!"
            )
        if not isinstance(indices_or_sections, int | tuple | list | Tensor):
            raise invalid_combination(name, (input, indices_or_sections))
        at = 0 if name == "hsplit" and input.dim() == 1 else dim
        size = input._array.shape[at]
        sections = indices_or_sections
        if isinstance(sections, int) and (sections == 0 or size % sections):
            raise RuntimeError(
                f"torch.{name} attempted to split along dimension {at}, but the size of the "
                f"dimension {size} is not divisible by the split_size {sections}!"
            )
        return tensor_split(input, sections, at)

    split_along.__name__ = name
    return both(split_along)


hsplit = _along("hsplit", 1, 1)
vsplit = _along("vsplit", 0, 2)
dsplit = _along("dsplit", 2, 3)
