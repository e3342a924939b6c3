"""Joining of tensors: cat, stack and similar functions."""

from __future__ import annotations

from itertools import combinations as without, combinations_with_replacement as replaced
from typing import Any

import numpy as np

from gradscope.runtime.core.calls.declare import (
    FUNCTION_ONLY,
    LINEAR,
    PROMOTES,
    family,
    hidden,
    op,
    sequence,
    w,
)
from gradscope.runtime.core.calls.extra_arguments.out import written
from gradscope.runtime.core.dtypes.memory_formats import (
    channels_last,
    channels_last_3d,
    copied,
    is_ordered,
)
from gradscope.runtime.core.ops.in_formulas import on_arrays
from gradscope.runtime.core.ops.index.gathering import zeros_of
from gradscope.runtime.core.ops.shape.shape import atleast_1d, atleast_2d, atleast_3d
from gradscope.runtime.core.ops.shape.slicing import FULL
from gradscope.runtime.core.rows.offered import function
from gradscope.runtime.core.state.warned import warn_once
from gradscope.runtime.core.tensors.dims import text, wrapped
from gradscope.runtime.core.tensors.placement import wrapped_on
from gradscope.runtime.core.tensors.tensor.tensor import Tensor


def _cat(tensors, dim=0):
    try:
        return _in_rows(np.concatenate(tensors, dim), tensors)
    except ValueError:
        return _in_rows(_cat_with_empty(tensors, dim), tensors)


def _in_rows(joined, tensors):
    """Row-major, as a new tensor, unless all pieces are channels last."""
    if joined.flags.c_contiguous:
        return joined
    if joined.ndim in (4, 5) and all(map(_has_channels_last, tensors)):
        return joined if _has_channels_last(joined) else copied(joined, _LAST[joined.ndim])
    return np.ascontiguousarray(joined)


_LAST = {4: channels_last, 5: channels_last_3d}


def _has_channels_last(array):
    wanted = _LAST.get(array.ndim)
    return wanted is not None and not array.flags.c_contiguous and is_ordered(array, wanted)


def _cat_with_empty(tensors, dim):
    """A tensor of shape (0,) can be joined with tensors of any shape."""
    if not tensors:
        raise ValueError("torch.cat(): expected a non-empty list of Tensors")
    if any(t.ndim == 0 for t in tensors):
        at = next(i for i, t in enumerate(tensors) if t.ndim == 0)
        raise RuntimeError(f"zero-dimensional tensor (at position {at}) cannot be concatenated")
    kept = [t for t in tensors if t.shape != (0,)]
    if not kept:
        return np.concatenate(tensors)
    first = kept[0]
    dim = wrapped(dim, first.ndim)
    for nr, other in ((i, t) for i, t in enumerate(tensors) if t.shape != (0,)):
        if other.ndim != first.ndim:
            raise RuntimeError(
                f"Tensors must have same number of dimensions: got {first.ndim} and {other.ndim}"
            )
        for d, (size, found) in enumerate(zip(first.shape, other.shape, strict=True)):
            if size != found and d != dim:
                raise RuntimeError(
                    f"Sizes of tensors must match except in dimension {dim}. Expected size {size} "
                    f"but got size {found} for tensor number {nr} in the list."
                )
    return np.concatenate(kept, dim)


def _parts(grad, tensors_shape, dim):
    """The part of the gradient of each tensor."""
    dim = dim % len(next((s for s in tensors_shape if s != (0,)), (0,)))
    parts: list[Any] = []
    start = 0
    for shape in tensors_shape:
        if shape == (0,):
            parts.append(zeros_of(grad, shape))
            continue
        parts.append(w.slice(grad, dim, start, start + shape[dim], 1))
        start += shape[dim]
    return parts


def _stack(tensors, dim=0):
    if not tensors:
        raise RuntimeError("stack expects a non-empty TensorList")
    ndim = tensors[0].ndim + 1
    place = (None,) if dim == 0 else (FULL,) * wrapped(dim, ndim) + (None,)
    try:
        return np.ascontiguousarray(np.concatenate([t[place] for t in tensors], dim))
    except (ValueError, IndexError):
        shape = tensors[0].shape
        at = next(i for i, t in enumerate(tensors) if t.shape != shape)
        raise RuntimeError(
            f"stack expects each tensor to be equal size, but got {text(shape)} at entry 0 and "
            f"{text(tensors[at].shape)} at entry {at}"
        ) from None


def _slices(grad, dim, needs):
    if on_arrays(grad):
        return w.unbind(grad, dim)
    return [w.select(grad, dim, i) if needed else None for i, needed in enumerate(needs)]


cat__default = op(
    "CatBackward0",
    _cat,
    LINEAR,
    PROMOTES,
    FUNCTION_ONLY,
    sequence("tensors"),
    hidden("tensors_shape"),
    tensors=lambda grad, tensors_shape, dim: _parts(grad, tensors_shape, dim),
)
stack__default = op(
    "StackBackward0",
    _stack,
    LINEAR,
    PROMOTES,
    FUNCTION_ONLY,
    sequence("tensors"),
    tensors=lambda grad, dim, needs: _slices(grad, dim, needs),
)


def _block_diag(tensors):
    blocks = [np.atleast_2d(t) for t in tensors]
    if any(t.ndim > 2 for t in tensors):
        at = next(i for i, t in enumerate(tensors) if t.ndim > 2)
        raise RuntimeError(
            "torch.block_diag: Input tensors must have 2 or fewer dimensions. Input "
            f"{at} has {tensors[at].ndim} dimensions"
        )
    height, width = (sum(b.shape[d] for b in blocks) for d in (0, 1))
    made = np.zeros((height, width), blocks[0].dtype)
    for block, place in _blocks(made, [b.shape for b in blocks]):
        place[...] = blocks[block]
    return made


def _blocks(matrix, shapes):
    """Each block's number and its view of the matrix."""
    row = column = 0
    for nr, (height, width) in enumerate(shapes):
        yield nr, matrix[row : row + height, column : column + width]
        row, column = row + height, column + width


def _block_diag_backward(grad, tensors_shape):
    pairs = [(1,) * (2 - len(shape)) + tuple(shape) for shape in tensors_shape]
    return [b.reshape(tensors_shape[nr]) for nr, b in _blocks(grad, pairs)]


block_diag__default = op(
    "BlockDiagBackward0",
    _block_diag,
    LINEAR,
    PROMOTES,
    FUNCTION_ONLY,
    sequence("tensors"),
    hidden("tensors_shape"),
    tensors=lambda grad, tensors_shape: _block_diag_backward(grad, tensors_shape),
)
family(globals())


def _several(name, tensors):
    if isinstance(tensors, tuple | list):
        if not tensors and name != "cat":
            raise RuntimeError(f"{name} expects a non-empty TensorList")
        return tensors
    raise TypeError(
        f"{name}(): argument 'tensors' (position 1) must be tuple of Tensors, not "
        f"{type(tensors).__name__}"
    )


def _checked(name, tensors):
    """Check that all are tensors; the error names the first that is not."""
    for nr, tensor in enumerate(_several(name, tensors)):
        if not isinstance(tensor, Tensor):
            raise TypeError(
                f"expected Tensor as element {nr} in argument 0, but got {type(tensor).__name__}"
            )
    return tensors


@function
def cat(tensors, dim=0, *, axis=None, out=None):
    """Join along an existing dim."""
    made = cat__default(_checked("cat", tensors), dim if axis is None else axis)
    return written("cat", made, out, tensors)


@function
def concat(tensors, dim=0, *, axis=None, out=None):
    return cat(tensors, dim, axis=axis, out=out)


@function
def concatenate(tensors, dim=0, *, axis=None, out=None):
    return cat(tensors, dim, axis=axis, out=out)


@function
def stack(tensors, dim=0, *, axis=None, out=None):
    """Join along a new dim."""
    made = stack__default(_checked("stack", tensors), dim if axis is None else axis)
    return written("stack", made, out, tensors)


@function
def hstack(tensors):
    pieces = [atleast_1d(t) for t in _several("hstack", tensors)]
    return cat(pieces, 0 if pieces[0].dim() == 1 else 1)


@function
def vstack(tensors):
    return cat([atleast_2d(t) for t in _several("vstack", tensors)], 0)


@function
def row_stack(tensors):
    return vstack(tensors)


@function
def dstack(tensors):
    return cat([atleast_3d(t) for t in _several("dstack", tensors)], 2)


@function
def column_stack(tensors):
    pieces = _several("column_stack", tensors)
    return cat([t if t.dim() > 1 else t.reshape(t.numel(), 1) for t in pieces], 1)


@function
def block_diag(*tensors):
    return block_diag__default(list(tensors))


@function
def meshgrid(*tensors, indexing=None):
    """The coordinates of all points of a grid, one tensor per axis."""
    if len(tensors) == 1 and isinstance(tensors[0], tuple | list):
        tensors = tuple(tensors[0])
    if indexing not in (None, "ij", "xy"):
        raise RuntimeError(
            f'torch.meshgrid: indexing must be one of "xy" or "ij", but received: {indexing}'
        )
    if indexing is None:
        warn_once(
            "torch.meshgrid: in an upcoming release, it will be required to pass the indexing "
            "argument."
        )
    swapped = indexing == "xy" and len(tensors) > 1
    if swapped:
        tensors = (tensors[1], tensors[0], *tensors[2:])
    shape = tuple(each.numel() for each in tensors)
    made = [
        t.view((1,) * place + (-1,) + (1,) * (len(shape) - place - 1)).expand(shape)
        for place, t in enumerate(tensors)
    ]
    if swapped:
        made[:2] = made[1::-1]
    return tuple(made)


@function
def cartesian_prod(*tensors):
    """All combinations of one element of each tensor."""
    if len(tensors) == 1:
        return tensors[0]
    return stack([g.flatten() for g in meshgrid(*tensors, indexing="ij")], 1)


@function
def combinations(input, r=2, with_replacement=False):
    """All combinations of r elements."""
    if input.dim() != 1:
        raise RuntimeError("Expect a 1D vector, but got shape " + text(input.shape))
    count = input.numel()
    chosen = np.zeros((count,) * r, np.bool_)
    for places in (replaced if with_replacement else without)(range(count), r):
        chosen[places] = True
    mask = wrapped_on(chosen, input.device)
    return stack([g.masked_select(mask) for g in meshgrid(*[input] * r, indexing="ij")], 1)
