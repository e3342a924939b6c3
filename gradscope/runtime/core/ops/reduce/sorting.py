"""Sorting: sort, argsort, topk, kthvalue; and nonzero."""

from __future__ import annotations

import numpy as np

from gradscope.runtime.core.calls import return_types
from gradscope.runtime.core.calls.declare import (
    INTERNAL,
    LINEAR,
    family,
    jvp,
    op,
    outputs,
    refuses,
    tensors,
    w,
)
from gradscope.runtime.core.kernels.support import BFLOAT16
from gradscope.runtime.core.rows.offered import METHODS, both, function
from gradscope.runtime.core.rows.traits import AS_THE_FIRST, ROW_BY_ROW
from gradscope.runtime.core.tensors.dims import wrapped
from gradscope.runtime.core.tensors.placement import read, wrapped_on


def order(array, dim, descending):
    """The indices that sort; stable, with NaN last."""
    values = array.astype(np.float32) if array.dtype == BFLOAT16 else array
    if not descending:
        return values.argsort(axis=dim, kind="stable")
    backwards = np.flip(values, dim).argsort(axis=dim, kind="stable")
    return np.flip(array.shape[dim] - 1 - backwards, dim)


def _laid_out(array, like):
    """The array in the memory layout of another one."""
    if like.flags.c_contiguous:
        return array
    made = np.empty_like(like, array.dtype)
    made[...] = array
    return made


def _sort(self, dim=-1, descending=False):
    dim = wrapped(dim, self.ndim)
    if not self.ndim:
        return self.copy(), np.zeros((), np.int64)
    indices = np.ascontiguousarray(order(self, dim, descending))
    return _laid_out(np.take_along_axis(self, indices, dim), self), _laid_out(indices, self)


def _topk(self, k, dim=-1, largest=True, sorted=True):
    dim = wrapped(dim, self.ndim)
    if not 0 <= k <= (self.shape[dim] if self.ndim else 1):
        raise RuntimeError("selected index k out of range")
    if not self.ndim:
        return self.copy(), np.zeros((), np.int64)
    first = (slice(None),) * dim + (slice(0, k),)
    indices = np.ascontiguousarray(order(self, dim, largest)[first])
    return np.take_along_axis(self, indices, dim), indices


def _kthvalue(self, k, dim=-1, keepdim=False):
    dim = wrapped(dim, self.ndim)
    if not 0 < k <= (self.shape[dim] if self.ndim else 1):
        raise RuntimeError("kthvalue(): selected number k out of range for dimension " + str(dim))
    if not self.ndim:
        return self.copy(), np.zeros((), np.int64)
    place = order(self, dim, False).take([k - 1], dim)
    values = np.take_along_axis(self, place, dim)
    return (values, place) if keepdim else (values.squeeze(dim), place.squeeze(dim))


def _put_back(grad, shape, dim, indices, keepdim=True):
    """Zeros of the input's shape with the gradient at the selected elements."""
    made = np.zeros(shape, grad.dtype)
    if not shape:
        made[()] = grad.reshape(())
        return made
    if not keepdim:
        grad, indices = np.expand_dims(grad, dim), np.expand_dims(indices, dim)
    np.put_along_axis(made, indices, grad, wrapped(dim, len(shape)))
    return made


def _gathered(grad, dim, indices, keepdim):
    if not keepdim and grad.ndim:
        return w.gather(grad, dim, w.unsqueeze(indices, dim)).squeeze(dim)
    return w.gather(grad, dim, indices)


SELECTED = {
    "self": lambda grads, self_shape, dim, indices: w._selected_backward(
        grads[0], self_shape, dim, indices, True
    )
}
VALUES = outputs("values", "indices", without=("indices",))
IN_PLACES = jvp(lambda self_t, dim, indices: (w.gather(self_t, dim, indices), None))
CHOSEN = jvp(lambda self_t, dim, indices, keepdim: (_gathered(self_t, dim, indices, keepdim), None))

NO_SORT = refuses("c", " Sort does not support complex dtypes on CPU", error=RuntimeError)
NO_TOPK = tuple(
    refuses(kind, text, error=RuntimeError)
    for kind, text in (
        ("c", " topk does not support complex dtypes on CPU"),
        ("b", "topk does not support bool dtypes on CPU"),
    )
)
sort__default = op("SortBackward0", _sort, IN_PLACES, NO_SORT, VALUES, AS_THE_FIRST, **SELECTED)
sort__stable = op("SortBackward1", _sort, IN_PLACES, NO_SORT, VALUES, AS_THE_FIRST, **SELECTED)
topk__default = op("TopkBackward0", _topk, IN_PLACES, ROW_BY_ROW, *NO_TOPK, VALUES, **SELECTED)
kthvalue__default = op(
    "KthvalueBackward0",
    _kthvalue,
    CHOSEN,
    refuses("cb", "\"kthvalue_cpu\" not implemented for '{kind}'"),
    VALUES,
    self=lambda grads, self_shape, dim, indices, keepdim: w._selected_backward(
        grads[0], self_shape, dim, indices, keepdim
    ),
)
_selected_backward = op(
    "ValueSelectingReductionBackwardBackward0",
    _put_back,
    LINEAR,
    INTERNAL,
    tensors("indices"),
    grad=lambda grad, dim, indices, keepdim: _gathered(grad, dim, indices, keepdim),
)
family(globals())


@both
def sort(input, dim=-1, descending=False, *, stable=None):
    """The sorted elements, and their original indices."""
    row = sort__default if stable is None else sort__stable
    return return_types.sort(*row(input, dim, descending))


@both
def argsort(input, dim=-1, descending=False, stable=False):
    return sort__default(input.detach(), dim, descending)[1]


@both
def msort(input):
    return sort__default(input, 0, False)[0]


@both
def topk(input, k, dim=-1, largest=True, sorted=True):
    """The k largest elements, or the smallest, and their indices."""
    return return_types.topk(*topk__default(input, k, dim, largest, sorted))


@both
def kthvalue(input, k, dim=-1, keepdim=False):
    return return_types.kthvalue(*kthvalue__default(input, k, dim, keepdim))


@function
def nonzero(input, *, as_tuple=False):
    """The indices of elements that are not zero: one row each, or one tensor per dim."""
    read(input)
    array = input._array if input._array.ndim or not as_tuple else input._array.reshape(1)
    if as_tuple:
        return tuple(wrapped_on(found.copy(), input.device) for found in np.nonzero(array))
    return wrapped_on(np.argwhere(array), input.device)


@both
def nonzero_static(input, *, size, fill_value=-1):
    """`size` of these indices: truncated, or padded with `fill_value`."""
    if size < 0:
        raise RuntimeError("nonzero_static: 'size' must be an non-negative integer")
    found = nonzero(input)._array[:size]
    made = np.full((size, found.shape[1]), fill_value, np.int64)
    made[: len(found)] = found
    return wrapped_on(made, input.device)


@both
def argwhere(input):
    return nonzero(input)


METHODS["nonzero"] = nonzero
