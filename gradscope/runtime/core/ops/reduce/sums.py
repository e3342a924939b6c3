"""Sums over dims and related reductions: sum, mean, var, std, logsumexp, counts."""

from __future__ import annotations

import math
from operator import index
from typing import Any

import numpy as np

from gradscope.runtime.core.calls.declare import (
    BY_HAND,
    FLOATS,
    LINEAR,
    REDUCES,
    family,
    op,
    outputs,
    refuses,
    w,
)
from gradscope.runtime.core.calls.extra_arguments.out import dtype_inside, written
from gradscope.runtime.core.dtypes.names import scalar_name
from gradscope.runtime.core.kernels.arrays import elementwise as plain
from gradscope.runtime.core.kernels.arrays.reduce import sum_columns
from gradscope.runtime.core.kernels.support import HALVES, LARGE
from gradscope.runtime.core.ops.in_formulas import (
    ONES,
    ZERO,
    Scalar,
    beside,
    function_alias,
    on_arrays,
    without,
)
from gradscope.runtime.core.ops.reduce.spread import spread_measure
from gradscope.runtime.core.rows.offered import both, function
from gradscope.runtime.core.rows.traits import ROW_BY_ROW
from gradscope.runtime.core.tensors.dims import wrapped_all
from gradscope.runtime.core.tensors.making.factories import dtype_named

add_reduce: Any = np.add.reduce
ndarray = np.ndarray
FLOAT32, FLOAT64, INT64 = np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.int64)
FEW = 256
"""Up to this size BLAS sums as accurately as NumPy, and three times as fast."""


def spread(grad, shape):
    """One number expanded to this shape."""
    if not on_arrays(grad):
        return grad.expand(shape)
    return ndarray(shape, grad.dtype, grad, 0, (0,) * len(shape))  # much faster than broadcast_to


def unreduced(grad, shape, dim, keepdim):
    """Restore the dims of a reduction, with size 1."""
    if keepdim or not shape or not dim:
        return grad
    dims = wrapped_all(dim, len(shape))
    sizes = tuple([1 if i in dims else size for i, size in enumerate(shape)])
    return grad.reshape(sizes) if on_arrays(grad) else _unsqueezed(grad, dims)


def _unsqueezed(grad, dims):
    for dim in sorted(dims):
        grad = grad.unsqueeze(dim)
    return grad


def spread_dims(grad, shape, dim, keepdim):
    """A reduced gradient expanded to the shape before the reduction."""
    grad = unreduced(grad, shape, dim, keepdim)
    if not on_arrays(grad):
        return grad.expand(shape)
    if not grad.flags.c_contiguous:
        return np.broadcast_to(grad, shape)
    steps = [0 if n == 1 else step for n, step in zip(grad.shape, grad.strides, strict=True)]
    return ndarray(shape, grad.dtype, grad, 0, [0] * (len(shape) - grad.ndim) + steps)


def dims_of(dim):
    """The dims of a call as a tuple: one, several, or none for all."""
    if dim.__class__ is int:
        return (dim,)
    return (index(dim),) if hasattr(dim, "__index__") else tuple(dim)


def accumulated(array, dim, keepdim):
    """A sum with PyTorch's accuracy: halves in single precision, long columns in blocks."""
    if array.dtype in HALVES:
        wide = add_reduce(array.astype(FLOAT32), axis=dim, keepdims=keepdim)
        return np.asarray(wide).astype(array.dtype)
    if array.size >= LARGE and dim == (0,) and array.flags.c_contiguous and array.ndim > 1:
        made = sum_columns(array.reshape(array.shape[0], -1)).reshape(array.shape[1:])
        return made[None] if keepdim else made
    return in_rows(add_reduce(array, axis=dim, dtype=array.dtype, keepdims=keepdim))


def in_rows(reduced):
    """A reduction's result in row-major order, as PyTorch allocates it."""
    return reduced if reduced.flags.c_contiguous else reduced.copy("C")


def total(array):
    """The sum of all elements of an array of an ordinary float dtype."""
    size = array.size
    if size <= FEW:
        return array.ravel().dot(ONES[array.dtype][size])
    return add_reduce(array, None)


def _sum(self, dtype=None):
    kind = self.dtype
    if dtype is None and (kind is FLOAT32 or kind is FLOAT64):
        return total(self)
    return accumulated(_summands(self, dtype), None, False)


def checked(dim, ndim):
    """The dims of a reduction in NumPy's form: None for all."""
    if dim and (not ndim or len(dim) > 1):
        wrapped_all(dim, ndim)
    return dim if ndim and dim else None


def is_last(dim, array):
    """Whether these dims are the last one of a row-major array."""
    return len(dim) == 1 and dim[0] in (-1, array.ndim - 1) and array.flags.c_contiguous


def _sum_dim(self, dim, keepdim=False, dtype=None):
    kind = self.dtype
    dim = checked(dim, self.ndim)
    if dtype is None and (kind is FLOAT32 or kind is FLOAT64) and self.size < LARGE:
        if not keepdim and dim is not None and self.shape[-1] <= FEW and is_last(dim, self):
            return self.dot(ONES[kind][self.shape[-1]])
        return in_rows(add_reduce(self, dim, None, None, keepdim))
    return accumulated(_summands(self, dtype), dim, keepdim)


def _summands(array, dtype):
    if dtype is not None:
        return array.astype(dtype_named(dtype).numpy)
    return array.astype(INT64) if array.dtype.kind in "biu" else array


sum__default = op(
    "SumBackward0", _sum, LINEAR, self=lambda grad, self_shape: spread(grad, self_shape)
)
sum__dim = op(
    "SumBackward1",
    _sum_dim,
    LINEAR,
    self=lambda grad, self_shape, dim, keepdim: spread_dims(grad, self_shape, dim, keepdim),
)


def _addends(self, dtype):
    if dtype is not None:
        kind = dtype_named(dtype)
        if not (kind.is_floating_point or kind.is_complex):
            raise RuntimeError(
                "mean(): could not infer output dtype. Optional dtype must be either a floating "
                f"point or complex dtype. Got: {kind.scalar_name}"
            )
        return self.astype(kind.numpy)
    if self.dtype.kind in "biu":
        raise RuntimeError(
            "mean(): could not infer output dtype. Input dtype must be either a floating point or "
            f"complex dtype. Got: {scalar_name(self)}"
        )
    return self


def _mean(self, dtype=None):
    kind = self.dtype
    if dtype is None and (kind is FLOAT32 or kind is FLOAT64):
        return total(self) / kind.type(self.size)
    return _mean_dim(self, None, False, dtype)


def _mean_dim(self, dim, keepdim=False, dtype=None):
    array = _addends(self, dtype)
    if array.dtype in HALVES:
        return np.asarray(_mean_dim(array.astype(FLOAT32), dim, keepdim)).astype(array.dtype)
    total = accumulated(array, checked(dim, array.ndim), keepdim)
    count = array.size // total.size if total.size else _count(array.shape, dim)
    return np.true_divide(total, array.dtype.type(count))


def _count(shape, dim):
    """The number of elements per result of a reduction."""
    if not dim:
        return math.prod(shape)
    return math.prod(shape[d] for d in wrapped_all(dim, len(shape)) if shape)


def _mean_slope(grad, self_shape, self_numel):
    if not on_arrays(grad):
        return grad.expand(self_shape) / Scalar(self_numel)
    made = np.empty(self_shape, grad.dtype)
    if self_numel:
        made.fill(grad.item() / self_numel)
    return made


def _mean_dim_slope(grad, self_shape, self_numel, dim, keepdim):
    if on_arrays(grad):
        grad = np.true_divide(grad, _count(self_shape, dim))
        made = np.empty(self_shape, grad.dtype)
        made[...] = unreduced(grad, self_shape, dim, keepdim)
        return made
    return spread_dims(grad, self_shape, dim, keepdim) / Scalar(_count(self_shape, dim))


mean__default = op("MeanBackward0", _mean, LINEAR, self=_mean_slope)
mean__dim = op("MeanBackward1", _mean_dim, LINEAR, self=_mean_dim_slope)
nansum__default = op(
    "NansumBackward0",
    lambda self, dim=None, keepdim=False, *, dtype=None: _sum_dim(
        np.where(np.isnan(self), ZERO[self.dtype], self) if self.dtype.kind in "fcV" else self,
        None if dim is None else dims_of(dim),
        keepdim,
        dtype,
    ),
    REDUCES,
    refuses("c", "nansum on CPU does not support complex inputs", error=RuntimeError),
    self=lambda grad, self, dim, keepdim: (
        spread_dims(grad, tuple(self.shape), dim, keepdim) * (self == self)
    ),
)
count_nonzero__default = op(
    None,
    lambda self, dim: np.asarray(np.count_nonzero(self, axis=checked(dim, self.ndim))).astype(
        INT64
    ),
    ROW_BY_ROW,
)
logsumexp__default = op(
    "LogsumexpBackward0",
    lambda self, dim, keepdim=False: plain.logsumexp(self, dim, keepdim),
    REDUCES,
    FLOATS,
    ROW_BY_ROW,
    self=lambda grad, self, result, dim, keepdim: (
        unreduced(grad, tuple(self.shape), dim, keepdim)
        * w.exp(self - unreduced(result, tuple(self.shape), dim, keepdim))
    ),
)


def _deviation(self, dim):
    """The deviation of each element from the mean, and the number of elements per variance."""
    dim = dim or None
    if self.dtype.kind in "biu":
        raise RuntimeError("std and var only support floating point and complex dtypes")
    mean = _mean_dim(self, dim, True)
    return self - mean, _count(self.shape, dim)


def _var(self, dim=None, *, correction=None, keepdim=False):
    if self.dtype in HALVES:
        wide = _var(self.astype(FLOAT32), dim, correction=correction, keepdim=keepdim)
        return np.asarray(wide).astype(self.dtype)
    far, count = _deviation(self, dim)
    squares = far.real**2 + far.imag**2 if far.dtype.kind == "c" else far * far
    total = add_reduce(squares, axis=dim or None, keepdims=keepdim)
    left = max(count - (1 if correction is None else correction), 0)
    return np.true_divide(total, squares.dtype.type(left))


def _var_slope(grad, self, dim, correction, keepdim):
    """2 (x - mean) / (n - correction), times the incoming gradient."""
    shape = tuple(self.shape)
    left = _count(shape, dim) - (1 if correction is None else correction)
    scale = 2 / left if left else math.inf
    mean = self.mean(dim, keepdims=True) if dim else self.mean()
    return unreduced(grad, shape, dim, keepdim) * beside(self, scale) * (self - mean)


def _std_slope(grad, self, result, dim, correction, keepdim):
    half = without(grad / (result * beside(result, 2)), result == 0)
    return _var_slope(half, self, dim, correction, keepdim)


def _std(self, dim=None, *, correction=None, keepdim=False):
    return np.sqrt(_var(self, dim, correction=correction, keepdim=keepdim))


def _with_mean(measure):
    def kernel(self, dim=None, *, correction=None, keepdim=False):
        made = measure(self, dim, correction=correction, keepdim=keepdim)
        return np.asarray(made), np.asarray(_mean_dim(self, dim, keepdim))

    return kernel


def _mean_part(grad, self, dim, keepdim):
    shape = tuple(self.shape)
    return spread_dims(grad, shape, dim, keepdim) / beside(grad, _count(shape, dim))


var__correction = op("VarBackward0", _var, REDUCES, BY_HAND, self=_var_slope)
std__correction = op("StdBackward0", _std, REDUCES, BY_HAND, self=_std_slope)
var_mean__correction = op(
    "VarMeanBackward0",
    _with_mean(_var),
    REDUCES,
    BY_HAND,
    outputs("result0", "result1"),
    self=lambda grads, self, dim, correction, keepdim: (
        _var_slope(grads[0], self, dim, correction, keepdim)
        + _mean_part(grads[1], self, dim, keepdim)
    ),
)
std_mean__correction = op(
    "StdMeanBackward0",
    _with_mean(_std),
    REDUCES,
    BY_HAND,
    outputs("result0", "result1"),
    self=lambda grads, self, result0, dim, correction, keepdim: (
        _std_slope(grads[0], self, result0, dim, correction, keepdim)
        + _mean_part(grads[1], self, dim, keepdim)
    ),
)
family(globals())


@both
def sum(input, dim=..., keepdim=False, *, dtype=None, axis=..., keepdims=False, out=None):
    """The sum of all elements, or over some dims."""
    if out is not None:
        inside = dtype_inside(dtype, out)
        made = sum(input, dim, keepdim, dtype=inside, axis=axis, keepdims=keepdims)
        return written("sum", made, out)
    dim = axis if dim is ... else dim
    if dim is ...:
        return sum__default(input, dtype)
    return sum__dim(input, None if dim is None else dims_of(dim), keepdim or keepdims, dtype)


@both
def mean(input, dim=..., keepdim=False, *, dtype=None, axis=..., keepdims=False, out=None):
    """The mean of all elements, or over some dims."""
    dim = axis if dim is ... else dim
    if dim is ...:
        made = mean__default(input, dtype)
    else:
        made = mean__dim(input, None if dim is None else dims_of(dim), keepdim or keepdims, dtype)
    return made if out is None else written("mean", made, out)


@both
def nansum(input, dim=None, keepdim=False, *, dtype=None):
    """The sum of all elements that are not NaN."""
    return nansum__default(input, None if dim is None else dims_of(dim), keepdim, dtype=dtype)


@both
def nanmean(input, dim=None, keepdim=False, *, dtype=None):
    """The mean of all elements that are not NaN."""
    if not input.is_floating_point() and not input.is_complex():
        kind = input.dtype.scalar_name
        raise RuntimeError(
            "nanmean(): expected input to have floating point or complex dtype but got " + kind
        )
    counted = (~input.detach().isnan()).sum(() if dim is None else dim, keepdim)
    return nansum(input, dim, keepdim, dtype=dtype) / counted


@both
def count_nonzero(input, dim=None):
    return count_nonzero__default(input, None if dim is None else dims_of(dim))


@both
def logsumexp(input, dim, keepdim=False):
    """The logarithm of the sum of exponentials, without overflow."""
    return logsumexp__default(input, dims_of(dim), keepdim)


var = both(
    spread_measure(var__correction, dims_of, "var", "The variance; divided by n - 1 unless told.")
)
std = both(spread_measure(std__correction, dims_of, "std", "The square root of the variance."))
var_mean = function(spread_measure(var_mean__correction, dims_of, "var_mean", "Variance and mean."))
std_mean = function(
    spread_measure(std_mean__correction, dims_of, "std_mean", "Deviation and mean.")
)
function_alias(logsumexp, "special.logsumexp")
