"""Distinct values: unique, unique_consecutive, mode; and counts: bincount."""

from __future__ import annotations

import numpy as np

from gradscope.runtime.core.calls import return_types
from gradscope.runtime.core.calls.declare import INTERNAL, UNKNOWN, family, op, outputs, refuses, w
from gradscope.runtime.core.errors.dtypes import unknown_dtype
from gradscope.runtime.core.ops.in_formulas import no_derivative, not_implemented, sortable
from gradscope.runtime.core.ops.reduce.sorting import CHOSEN, VALUES, order
from gradscope.runtime.core.rows.offered import both, function
from gradscope.runtime.core.tensors.dims import wrapped

NOTHING = np.zeros(0, np.int64)


def _distinct(self, return_inverse=False, return_counts=False):
    values, inverse, counts = np.unique(
        sortable(self).reshape(-1), return_inverse=True, return_counts=True, equal_nan=False
    )
    return (
        values.astype(self.dtype, copy=False),
        inverse.reshape(self.shape) if return_inverse or return_counts else NOTHING,
        counts if return_counts else NOTHING,
    )


def _rows(self, dim, name):
    """The slices along a dim as rows, and the sizes to restore slices."""
    moved = np.moveaxis(sortable(self), dim, 0) if self.ndim else sortable(self).reshape(1)
    if 0 in moved.shape[1:] and moved.shape[0]:
        raise RuntimeError(
            f"{name}: There are 0 sized dimensions, and they aren't selected, so unique cannot be "
            "applied"
        )
    return moved.reshape(moved.shape[0], -1) if moved.size else moved.reshape(0, 0), moved.shape[1:]


def _slices(rows, shape, dim, kind):
    made = rows.reshape((len(rows), *shape))
    return np.ascontiguousarray(np.moveaxis(made, 0, dim)).astype(kind, copy=False)


def _unique_dim(self, dim, return_inverse=False, return_counts=False):
    dim = wrapped(dim, self.ndim)
    rows, shape = _rows(self, dim, "unique")
    if not rows.size:
        return self.copy(), NOTHING, NOTHING
    first = np.lexsort(rows.T[::-1])
    starts, inverse, counts = _runs(rows[first])
    places = np.empty(len(rows), np.int64)
    places[first] = inverse
    return _slices(rows[first][starts], shape, dim, self.dtype), places, counts


def _runs(rows):
    """The starts of runs of equal rows, the run of each row, and their lengths."""
    new = np.ones(len(rows), np.bool_)
    new[1:] = (rows[1:] != rows[:-1]).any(1)
    starts = np.flatnonzero(new)
    return starts, np.cumsum(new) - 1, np.diff(np.append(starts, len(rows)))


def _consecutive(self, return_inverse=False, return_counts=False, dim=None):
    if dim is None:
        rows, shape = self.reshape(-1, 1), ()
    else:
        dim = wrapped(dim, self.ndim)
        rows, shape = _rows(self, dim, "unique_consecutive")
    if not rows.size:
        inverse = np.zeros(self.shape if dim is None else 0, np.int64)
        empty = self.reshape(-1).copy() if dim is None else self.copy()
        return empty, inverse if return_inverse else NOTHING, NOTHING
    starts, inverse, counts = _runs(rows)
    made = _slices(rows[starts], shape, dim or 0, self.dtype)
    inverse = inverse.reshape(self.shape) if dim is None else inverse
    return (
        made,
        inverse if return_inverse or dim is not None else NOTHING,
        counts if return_counts or dim is not None else NOTHING,
    )


PARTS = outputs("output", "inverse_indices", "counts", without=("inverse_indices", "counts"))
_unique2 = op(
    "Unique2Backward0",
    _distinct,
    UNKNOWN,
    INTERNAL,
    PARTS,
    refuses("c", "\"unique\" not implemented for '{kind}'"),
    self=not_implemented("_unique2"),
)
_unique__default = op(
    "UniqueBackward0",
    lambda self, sorted, return_inverse: _distinct(self, return_inverse, False)[:2],
    UNKNOWN,
    INTERNAL,
    outputs("output0", "output1", without=("output1",)),
    refuses("c", "\"unique\" not implemented for '{kind}'"),
    self=not_implemented("_unique"),
)
unique_dim = op(
    "UniqueDimBackward0",
    _unique_dim,
    UNKNOWN,
    INTERNAL,
    PARTS,
    refuses("c", "\"unique_dim\" not implemented for '{kind}'"),
    self=not_implemented("unique_dim"),
)
unique_consecutive__default = op(
    "UniqueConsecutiveBackward0",
    _consecutive,
    UNKNOWN,
    PARTS,
    refuses("c", "\"unique_consecutive\" not implemented for '{kind}'"),
    self=not_implemented("unique_consecutive"),
)


def _mode(self, dim=-1, keepdim=False):
    dim = wrapped(dim, self.ndim)
    if not self.ndim:
        return self.copy(), np.zeros((), np.int64)
    if not self.shape[dim]:
        raise IndexError(f"mode(): Expected reduction dim {dim} to have non-zero size.")
    if not self.size:
        shape = list(self.shape)
        shape[dim : dim + 1] = [1] if keepdim else []
        return np.zeros(shape, self.dtype), np.zeros(shape, np.int64)
    places = order(self, dim, False)
    moved = np.moveaxis(np.take_along_axis(self, places, dim), dim, -1)
    new = np.ones(moved.shape, np.bool_)
    new[..., 1:] = moved[..., 1:] != moved[..., :-1]
    nr = np.arange(moved.shape[-1])
    length = nr - np.maximum.accumulate(np.where(new, nr, 0), axis=-1)
    best = np.expand_dims(length.argmax(-1), dim)  # the first of the longest runs ends here
    indices = np.take_along_axis(places, best, dim)
    values = np.take_along_axis(self, indices, dim)
    return (values, indices) if keepdim else (values.squeeze(dim), indices.squeeze(dim))


mode__default = op(
    "ModeBackward0",
    _mode,
    CHOSEN,
    VALUES,
    refuses("c", "\"mode_cpu\" not implemented for '{kind}'"),
    self=lambda grads, self_shape, dim, indices, keepdim: w._selected_backward(
        grads[0], self_shape, dim, indices, keepdim
    ),
)


def _bincount(self, weights=None, minlength=0):
    if self.dtype.kind not in "iu":
        raise unknown_dtype("bincount_cpu", self)
    if minlength < 0:
        raise RuntimeError("minlength should be >= 0")
    if self.ndim == 1 and not self.size:
        return np.zeros(minlength, np.int64)
    if self.ndim != 1 or self.min() < 0:
        raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")
    if weights is None:
        return np.bincount(self, minlength=minlength)
    if weights.shape != self.shape:
        raise RuntimeError("weights should be 1-d and have the same length as input")
    wide = np.float32 if weights.dtype == np.float32 else np.float64
    return np.bincount(self, weights.astype(np.float64), minlength).astype(wide)


bincount = op("NotImplemented", _bincount, UNKNOWN, weights=no_derivative("bincount"))
family(globals())


@both
def unique(input, sorted=True, return_inverse=False, return_counts=False, dim=None):
    """The distinct values in order; distinct slices, if a dim is given."""
    if dim is None:
        made = _unique2(input, return_inverse, return_counts)
    else:
        made = unique_dim(input, dim, return_inverse, return_counts)
    return _asked(made, return_inverse, return_counts)


@function
def _unique(input, sorted=True, return_inverse=False):
    """The old `unique`: the values, and optionally the inverse indices."""
    return _unique__default(input, sorted, return_inverse)


@both
def unique_consecutive(input, return_inverse=False, return_counts=False, dim=None):
    """One value, or slice, of each run of equal ones."""
    made = unique_consecutive__default(input, return_inverse, return_counts, dim)
    return _asked(made, return_inverse, return_counts)


def _asked(made, return_inverse, return_counts):
    if not (return_inverse or return_counts):
        return made[0]
    return (made[0], *([made[1]] if return_inverse else []), *([made[2]] if return_counts else []))


@both
def mode(input, dim=-1, keepdim=False):
    """The most frequent value along a dim, and its last index."""
    return return_types.mode(*mode__default(input, dim, keepdim))
