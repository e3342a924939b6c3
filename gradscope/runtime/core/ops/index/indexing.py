"""Indexing by tensors: index, index_put, and their gradients."""

from __future__ import annotations

import numpy as np

from gradscope.runtime.core.calls.declare import (
    INTERNAL,
    LINEAR,
    METHOD_ONLY,
    Memory,
    family,
    holds,
    inplace,
    op,
    w,
)
from gradscope.runtime.core.dtypes import dtypes
from gradscope.runtime.core.dtypes.names import scalar_name
from gradscope.runtime.core.kernels.arrays import scatter
from gradscope.runtime.core.kernels.support import HALVES
from gradscope.runtime.core.ops.in_formulas import on_arrays
from gradscope.runtime.core.ops.shape.slicing import FULL
from gradscope.runtime.core.rows.layouts import ordered, slowest_first
from gradscope.runtime.core.rows.offered import both, method
from gradscope.runtime.core.rows.traits import AS_THE_FIRST
from gradscope.runtime.core.tensors.dims import text
from gradscope.runtime.core.tensors.tensor.tensor import Tensor

CHEAPLY_COPIED = 2048
"""Largest number of elements for which `take` of a copy is faster than NumPy's indexing."""


def places(indices):
    """Index tensors (or None: everything along that dim) as NumPy's index."""
    return tuple([FULL if i is None else place(i._array) for i in indices])


def place(array):
    return array.view(np.bool_) if array.dtype == np.uint8 else array


def _index(self, indices):
    where = places(indices)
    contiguous = self.flags.c_contiguous
    try:
        single = where[-1]
        if (
            (contiguous or self.size <= CHEAPLY_COPIED)  # Otherwise `take` copies all of it.
            and single.dtype.kind != "b"
            and all(w is FULL for w in where[:-1])
        ):
            made = self.take(single, len(where) - 1)
        else:
            made = np.asarray(self[where], order="C")
        return made if contiguous else _laid(made, self, where)
    except IndexError as error:
        raise IndexError(_misplaced(self, where, error)) from None


def _laid(made, self, where):
    """The layout: dims that are not indexed in their order, dims of the index in their place."""
    taken: list[int] = []  # the indexed dims
    at = 0
    for index in where:
        spent = index.ndim if index is not FULL and index.dtype.kind == "b" else 1
        if index is not FULL:
            taken += range(at, at + spent)
        at += spent
    kept = [d for d in range(self.ndim) if d not in taken]
    in_a_row = taken == list(range(taken[0], taken[-1] + 1))
    before = [d for d in kept if in_a_row and d < taken[0]]
    after = kept[len(before) :]
    new = made.ndim - len(kept)
    steps = [self.strides[d] for d in before] + [0] * new + [self.strides[d] for d in after]
    return ordered(made, slowest_first(made.shape, [steps]))


def _misplaced(self, where, error):
    """PyTorch's error for the index that does not fit."""
    words = str(error)
    if self.size == 0 and any(i is not FULL and i.dtype.kind != "b" and i.size for i in where):
        return "index is out of bounds for dimension with size 0"
    if "out of bounds" in words:
        front, _, back = words.partition("axis ")
        axis, _, rest = back.partition(" ")
        return f"{front}dimension {_rank(where, int(axis))} {rest}"
    dim = 0
    for nr, index in enumerate(where):
        if index is FULL or index.dtype.kind != "b":
            dim += 1
            continue
        if self.shape[dim : dim + index.ndim] != index.shape:
            return (
                f"The shape of the mask {text(index.shape)} at index 0 does not match the shape of "
                f"the indexed tensor {text(self.shape)} at index {nr}"
            )
        dim += index.ndim
    if dim > self.ndim:
        return f"too many indices for tensor of dimension {self.ndim}"
    shapes = ", ".join(text(s) for i in where if i is not FULL for s in _index_shapes(i))
    return "shape mismatch: indexing tensors could not be broadcast together with shapes " + shapes


def _rank(where, axis):
    """The position of an axis among the indexed dims, as PyTorch counts it."""
    dim = rank = 0
    for index in where:
        spent = index.ndim if index is not FULL and index.dtype.kind == "b" else 1
        if dim + spent > axis:
            break
        dim += spent
        rank += 0 if index is FULL else spent
    return rank


def _index_shapes(index):
    if index.dtype.kind != "b":
        return [index.shape]
    return [(int(np.count_nonzero(index)),)] * index.ndim


def _index_backward(grad_output, input_sizes, indices):
    made = np.zeros(input_sizes, grad_output.dtype)
    _add_at(made, places(indices), grad_output)
    return made


def _add_at(array, where, values):
    """Add values at indices that may repeat."""
    if all(i is FULL or i.dtype.kind == "b" for i in where):
        array[where] += values
        return
    if _picks_rows(array, where, values):
        index = where[0]
        scatter.index_add(array, 0, np.where(index < 0, index + len(array), index), values)
        return
    if array.dtype in HALVES:
        wide = array.astype(np.float32)
        np.add.at(wide, where, np.asarray(values).astype(np.float32))
        array[...] = wide
        return
    np.add.at(array, where, values)


def _picks_rows(array, where, values):
    first = where[0]
    return (
        len(where) == 1
        and first.ndim == 1
        and first.size > 0
        and np.shape(values) == first.shape + array.shape[1:]
    )


index = op(
    "IndexBackward0",
    _index,
    LINEAR,
    INTERNAL,
    holds("indices"),
    self=lambda grad, self_shape, indices: _unindexed(grad, self_shape, indices),
)


def _unindexed(grad, self_shape, indices):
    if on_arrays(grad):
        return _index_backward(grad, self_shape, indices)
    return w._index_put_impl(grad.new_zeros(self_shape), indices, grad)


_index_put_impl = op(
    "IndexPutImplBackward0",
    lambda self, indices, values: _index_backward(values, self.shape, indices),
    LINEAR,
    INTERNAL,
    holds("indices"),
    self=lambda grad: grad,
    values=lambda grad, indices: w.index(grad, indices),
)


def _put(self, indices, values, accumulate=False):
    return _put_in(self.copy(), indices, values, accumulate)


def _put_in(self, indices, values, accumulate=False):
    if self.dtype != values.dtype:
        kinds = [scalar_name(a) for a in (self, values)]
        raise RuntimeError(
            "Index put requires the source and destination dtypes match, got "
            f"{kinds[0]} for the destination and {kinds[1]} for the source."
        )
    if len(indices) > self.ndim:
        raise IndexError(
            f"too many indices for tensor of dimension {self.ndim} (got {len(indices)})"
        )
    where = places(indices)
    try:
        if accumulate:
            _add_at(self, where, values)
        else:
            self[where] = values
    except IndexError as error:
        raise IndexError(_misplaced(self, where, error)) from None
    except (ValueError, TypeError):
        raise RuntimeError(
            f"shape mismatch: value tensor of shape {text(values.shape)} cannot be broadcast to "
            f"indexing result of shape {text(self[where].shape)}"
        ) from None
    return self


def _cleared(self, indices):
    made = self.copy()
    made[places(indices)] = 0
    return made


_cleared_at = op(
    "IndexPutBackward0",
    _cleared,
    LINEAR,
    INTERNAL,
    holds("indices"),
    self=lambda grad, indices: w._cleared_at(grad, indices),
)
index_put__default = op(
    "IndexPutBackward0",
    _put,
    LINEAR,
    METHOD_ONLY,
    holds("indices"),
    AS_THE_FIRST,
    self=lambda grad, indices, accumulate: grad if accumulate else w._cleared_at(grad, indices),
    values=lambda grad, indices: w.index(grad, indices),
)
index_put___default = inplace(
    index_put__default,
    _put_in,
    Memory(repeated="index_put_", free=("self",), apart=("values",)),
)
index_put___fill = inplace(
    index_put__default, _put_in, Memory(repeated="index_put_", free=("self", "values"))
)
family(globals())


def checked(indices):
    """The indices of a call as a tuple of integer or bool tensors, and None."""
    for nr, tensor in enumerate(indices):
        if tensor is None:
            continue
        if not isinstance(tensor, Tensor):
            raise TypeError(
                f"expected Tensor as element {nr} in argument 0, but got {type(tensor).__name__}"
            )
        if tensor._array.dtype.char not in "lqiBb?" or tensor.dtype is dtypes.int8:
            raise IndexError("tensors used as indices must be long, int, byte or bool tensors")
    return tuple(indices)


@both
def index_put(self, indices, values, accumulate=False):
    return index_put__default(self, checked(indices), values, accumulate)


@method
def index_put_(self, indices, values, accumulate=False):
    found = checked(indices)
    if self._storage is not None and not accumulate and _fills(found, values):
        return index_put___fill(self, found, values, accumulate)
    return index_put___default(self, found, values, accumulate)


def _fills(indices, values):
    """Whether one value is written by one mask: then it may be one of the overwritten elements."""
    masks = [i for i in indices if i is not None]
    return values.numel() == 1 and len(masks) == 1 and masks[0]._array.dtype.char in "?B"


def indexed(self, indices):
    return index(self, checked(indices))
