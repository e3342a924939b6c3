"""Extremes: max, min, amax, amin, argmax, argmin, aminmax, median, all, any."""

from __future__ import annotations

import numpy as np

from gradscope.runtime.core.calls import return_types
from gradscope.runtime.core.calls.declare import REDUCES, family, op, outputs, refuses, w
from gradscope.runtime.core.errors.numpy import invalid_combination
from gradscope.runtime.core.ops.in_formulas import ZERO, is_number, on_arrays, sortable, zeros_like
from gradscope.runtime.core.ops.pointwise.choice import maximum, minimum
from gradscope.runtime.core.ops.reduce.sorting import CHOSEN, VALUES, order
from gradscope.runtime.core.ops.reduce.sums import dims_of, in_rows
from gradscope.runtime.core.rows.offered import both
from gradscope.runtime.core.rows.traits import ROW_BY_ROW
from gradscope.runtime.core.tensors.dims import wrapped, wrapped_all

ndarray = np.ndarray


def _unordered(name):
    return refuses("c", f"\"{name}\" not implemented for '{{kind}}'")


def _not_along(name, kinds="c"):
    """The error for a dtype without extremes along a dim."""
    words = {"c": "complex", "b": "bool"}
    return [
        refuses(kind, f"{name}(): does not support {words[kind]} input", error=RuntimeError)
        for kind in kinds
    ]


def _reduced(ufunc, name):
    """A reduction that has no value for an empty input."""

    def kernel(self, dim=(), keepdim=False):
        _not_empty(self, dim, name)
        if not self.ndim or len(dim) > 1:
            dim = wrapped_all(dim, self.ndim)
        if not self.ndim:
            return self.copy()
        return in_rows(ufunc.reduce(self, axis=dim or None, keepdims=keepdim))

    return kernel


def _not_empty(array, dim, name):
    if array.size:
        return
    if not dim:
        raise RuntimeError(
            f"{name}(): Expected reduction dim to be specified for input.numel() == 0. "
            "Specify the reduction dim with the 'dim' argument."
        )
    for d in wrapped_all(dim, array.ndim):
        if array.ndim and array.shape[d] == 0:
            raise IndexError(f"{name}(): Expected reduction dim {d} to have non-zero size.")


def _shared(grad, self, result, dim, keepdim):
    """The gradient divided equally among all elements that are the extreme."""
    shape = tuple(self.shape)
    best = self == _restored(result, shape, dim, keepdim)
    return _restored(grad, shape, dim, keepdim) / best.sum(dim or None, keepdims=True) * best


def _restored(reduced, shape, dim, keepdim):
    """Restore the reduced dims."""
    if keepdim or not shape:
        return reduced
    dims = wrapped_all(dim, len(shape)) if dim else range(len(shape))
    return reduced.reshape(tuple(1 if i in dims else size for i, size in enumerate(shape)))


def _shared_by_all(grad, self, result):
    best = self == result
    if not best.any():  # the extreme is NaN
        best = w.isnan(self)
    share = grad / best.sum()
    if on_arrays(grad):
        return np.where(best, share, ZERO[grad.dtype])
    return zeros_like(self.detach()).masked_fill(best, share)


def _best(ufunc, place, name):
    """Values along one dim and their indices: the first of equal ones, the first NaN."""

    def kernel(self, dim, keepdim=False):
        dim = wrapped(dim, self.ndim)
        if not self.ndim:
            return self.copy(), np.zeros((), np.int64)
        _not_empty(self, (dim,), name)
        values = in_rows(ufunc.reduce(self, axis=dim, keepdims=keepdim))
        return np.asarray(values), np.asarray(place(sortable(self), axis=dim, keepdims=keepdim))

    return kernel


def _place(place, name):
    def kernel(self, dim=None, keepdim=False):
        if dim is not None:
            dim = wrapped(dim, self.ndim)
        _not_empty(self, () if dim is None else (dim,), name)
        axis = dim if self.ndim else None
        return np.asarray(place(sortable(self), axis=axis, keepdims=keepdim))

    return kernel


def _selected(grads, self_shape, dim, indices, keepdim):
    grad = grads[0]
    if on_arrays(grad) or not self_shape:
        return w._selected_backward(grad, self_shape, dim, indices, keepdim)
    if not keepdim:
        grad, indices = grad.unsqueeze(dim), indices.unsqueeze(dim)
    return grad.new_zeros(self_shape).scatter(dim, indices, grad)


amax__default = op(
    "AmaxBackward0",
    _reduced(np.maximum, "amax"),
    REDUCES,
    _unordered("max_values_cpu"),
    self=_shared,
)
amin__default = op(
    "AminBackward0",
    _reduced(np.minimum, "amin"),
    REDUCES,
    _unordered("min_values_cpu"),
    self=_shared,
)
max__default = op(
    "MaxBackward1",
    lambda self: _whole(self, np.maximum, ndarray.argmax, "max"),
    REDUCES,
    _unordered("max_all"),
    self=_shared_by_all,
)
min__default = op(
    "MinBackward1",
    lambda self: _whole(self, np.minimum, ndarray.argmin, "min"),
    REDUCES,
    _unordered("min_all"),
    self=_shared_by_all,
)
max__dim = op(
    "MaxBackward0",
    _best(np.maximum, np.argmax, "max"),
    CHOSEN,
    *_not_along("max"),
    VALUES,
    self=_selected,
)
min__dim = op(
    "MinBackward0",
    _best(np.minimum, np.argmin, "min"),
    CHOSEN,
    *_not_along("min"),
    VALUES,
    self=_selected,
)
argmax = op(None, _place(np.argmax, "argmax"), *_not_along("argmax", "cb"))
argmin = op(None, _place(np.argmin, "argmin"), *_not_along("argmin", "cb"))


def _whole(self, ufunc, place, name):
    _not_empty(self, (), name)
    if self.dtype.kind == "V":
        return ufunc.reduce(self, axis=None)
    return self.ravel()[place(self)]


def _extremes(self, *, dim=None, keepdim=False):
    dims = () if dim is None else (dim,)
    if not self.size and dim is None:
        raise RuntimeError(
            "aminmax(): cannot compute aminmax over an empty dimension as the operation has no "
            "identity."
        )
    if self.ndim and dim is not None and not self.shape[wrapped(dim, self.ndim)]:
        raise IndexError(
            f"aminmax: Expected reduction dim {wrapped(dim, self.ndim)} to have non-zero size."
        )
    return tuple(
        np.asarray(r(self, dims, keepdim))
        for r in (amin__default.op.kernel, amax__default.op.kernel)
    )


def _extremes_slope(grads, self, min, max, dim, keepdim):
    dims = () if dim is None else (dim,)
    return _shared(grads[0], self, min, dims, keepdim) + _shared(grads[1], self, max, dims, keepdim)


aminmax__default = op(
    "AminmaxBackward0",
    _extremes,
    REDUCES,
    _unordered("aminmax_cpu"),
    outputs("min", "max"),
    self=_extremes_slope,
)


def _truth(ufunc):
    """Whether all, or any, are true. For uint8 PyTorch returns uint8."""

    def kernel(self, dim, keepdim=False):
        if dim is not None and not self.ndim:
            wrapped_all(dim, 0)
            dim = None
        made = in_rows(ufunc.reduce(self != 0, axis=dim, keepdims=keepdim))
        return made.astype(np.uint8) if self.dtype == np.uint8 else made

    return kernel


all__dim = op(None, _truth(np.logical_and))
any__dim = op(None, _truth(np.logical_or))


def _middle(self, dim, keepdim):
    """The lower median, or the first NaN."""
    dim = wrapped(dim, self.ndim)
    if not self.ndim:
        return self.copy(), np.zeros((), np.int64)
    _not_empty(self, (dim,), "median")
    ordered = order(self, dim, False)
    place = ordered.take([(self.shape[dim] - 1) // 2], dim)
    if self.dtype.kind in "fV":
        nan = np.isnan(self)
        first = np.expand_dims(nan.argmax(dim), dim)
        place = np.where(np.take_along_axis(nan, first, dim), first, place)
    values = np.take_along_axis(self, place, dim)
    return (values, place) if keepdim else (values.squeeze(dim), place.squeeze(dim))


def _middle_number(self, dim, keepdim):
    """The lower median of the values that are not NaN."""
    dim = wrapped(dim, self.ndim)
    if not self.ndim or self.dtype.kind in "iu":
        return _middle(self, dim, keepdim)
    ordered = order(self, dim, False)  # NaN is last
    count = np.expand_dims((self == self).sum(dim), dim)
    place = np.take_along_axis(ordered, np.maximum((count - 1) // 2, 0), dim)
    values = np.take_along_axis(self, place, dim)
    return (values, place) if keepdim else (values.squeeze(dim), place.squeeze(dim))


def _middle_number_of_all(self):
    if not self.size:
        return np.full((), np.nan, self.dtype)
    return _middle_number(self.reshape(-1), 0, False)[0]


def _middle_of_all(self):
    if not self.size:
        return np.full((), np.nan, self.dtype)
    return _middle(self.reshape(-1), 0, False)[0]


NO_MIDDLE = refuses("cb", "\"median_cpu\" not implemented for '{kind}'")
NO_MIDDLES = refuses("cb", "\"median_out\" not implemented for '{kind}'")
median__default = op("MedianBackward0", _middle_of_all, REDUCES, NO_MIDDLE, self=_shared_by_all)
median__dim = op(
    "MedianBackward1",
    lambda self, dim, keepdim=False: _middle(self, dim, keepdim),
    CHOSEN,
    NO_MIDDLES,
    VALUES,
    self=_selected,
)
nanmedian__default = op(
    "NanmedianBackward0", _middle_number_of_all, REDUCES, NO_MIDDLE, ROW_BY_ROW, self=_shared_by_all
)
nanmedian__dim = op(
    "NanmedianBackward1",
    lambda self, dim, keepdim=False: _middle_number(self, dim, keepdim),
    CHOSEN,
    NO_MIDDLES,
    VALUES,
    ROW_BY_ROW,
    self=_selected,
)
family(globals())


@both
def max(input, dim=None, keepdim=False, *, axis=None, keepdims=False):
    """The maximum; along a dim, values and indices; of two tensors, elementwise."""
    if is_number(input):
        raise invalid_combination("max", (input, dim))
    dim = dim if axis is None else axis
    if dim is None:
        return max__default(input)
    if hasattr(dim, "_array") or dim.__class__ is not int:
        return maximum(input, dim)
    return return_types.max(*max__dim(input, dim, keepdim or keepdims))


@both
def min(input, dim=None, keepdim=False, *, axis=None, keepdims=False):
    """The minimum; along a dim, values and indices; of two tensors, elementwise."""
    if is_number(input):
        raise invalid_combination("min", (input, dim))
    dim = dim if axis is None else axis
    if dim is None:
        return min__default(input)
    if hasattr(dim, "_array") or dim.__class__ is not int:
        return minimum(input, dim)
    return return_types.min(*min__dim(input, dim, keepdim or keepdims))


@both
def amax(input, dim=(), keepdim=False, *, axis=None, keepdims=False):
    """The maximum over some dims; equal elements share the gradient."""
    return amax__default(input, dims_of(dim if axis is None else axis), keepdim or keepdims)


@both
def amin(input, dim=(), keepdim=False, *, axis=None, keepdims=False):
    """The minimum over some dims; equal elements share the gradient."""
    return amin__default(input, dims_of(dim if axis is None else axis), keepdim or keepdims)


@both
def aminmax(input, *, dim=None, keepdim=False):
    return return_types.aminmax(*aminmax__default(input, dim=dim, keepdim=keepdim))


@both
def median(input, dim=None, keepdim=False):
    if dim is None:
        return median__default(input)
    return return_types.median(*median__dim(input, dim, keepdim))


@both
def nanmedian(input, dim=None, keepdim=False):
    """The median of values that are not NaN."""
    if dim is None:
        return nanmedian__default(input)
    return return_types.nanmedian(*nanmedian__dim(input, dim, keepdim))


@both
def all(input, dim=None, keepdim=False, *, axis=None, keepdims=False):
    """Whether all elements are true."""
    dim = dim if axis is None else axis
    return all__dim(input, None if dim is None else dims_of(dim), keepdim or keepdims)


@both
def any(input, dim=None, keepdim=False, *, axis=None, keepdims=False):
    """Whether any element is true."""
    dim = dim if axis is None else axis
    return any__dim(input, None if dim is None else dims_of(dim), keepdim or keepdims)
