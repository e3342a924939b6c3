"""Products, and cumulative sums, products and extremes along a dim."""

from __future__ import annotations

import itertools
import math

import numpy as np

from gradscope.runtime.core.calls import return_types
from gradscope.runtime.core.calls.declare import (
    LINEAR,
    REDUCES,
    family,
    inplace,
    jvp,
    op,
    outputs,
    refuses,
    w,
)
from gradscope.runtime.core.dtypes.dtypes import from_numpy
from gradscope.runtime.core.dtypes.limits import finfo
from gradscope.runtime.core.kernels.arrays import elementwise as plain
from gradscope.runtime.core.kernels.support import HALVES
from gradscope.runtime.core.ops.in_formulas import is_complex, zeros_like
from gradscope.runtime.core.ops.reduce.sorting import IN_PLACES
from gradscope.runtime.core.ops.reduce.sums import unreduced
from gradscope.runtime.core.rows.offered import both, method
from gradscope.runtime.core.rows.traits import ROW_BY_ROW
from gradscope.runtime.core.tensors.dims import wrapped
from gradscope.runtime.core.tensors.making.factories import dtype_named


def _scan(step):
    def kernel(self, dim, dtype=None):
        wrapped(dim, self.ndim)
        if dtype is None:
            return step(self, dim, None)
        kind = dtype_named(dtype).numpy
        if kind == np.bool_:
            raise NotImplementedError(f"\"{step.__name__}_out_cpu\" not implemented for 'Bool'")
        return step(self, dim, kind)

    return kernel


def _reversed(x, dim):
    return w.flip(x, (dim,)) if x.ndim else x


def reversed_cumsum(grad, dim):
    """The sum from each element to the end."""
    if not grad.ndim or grad.shape[dim] == 1:
        return grad
    return _reversed(w.cumsum(_reversed(grad, dim), dim), dim)


def _pieces(x, dim):
    """The slices along a dim, each with size 1 there."""
    return [x[(slice(None),) * dim + (slice(i, i + 1),)] for i in range(x.shape[dim])]


def _cumprod_slope(grad, self, result, dim):
    if self.ndim == 0 or math.prod(self.shape) == 1:
        return grad
    if self.shape[wrapped(dim, self.ndim)] and not bool((self == 0).any()):
        return reversed_cumsum(grad * result, dim) / self
    return _cumprod_slope_with_zeros(grad, self, wrapped(dim, self.ndim))


def _cumprod_slope_with_zeros(grad, self, dim):
    """Without division: from the end, s = g + x s' sums the contributions of each element."""
    if not self.shape[dim]:
        return grad
    grads, factors = _pieces(grad, dim), _pieces(self, dim)
    sums = [grads[-1]]
    for g, x in zip(grads[-2::-1], factors[:0:-1], strict=True):
        sums.append(g + x * sums[-1])
    slopes, product = [], None
    for s, x in zip(reversed(sums), factors, strict=True):
        slopes.append(s if product is None else s * product)
        product = x if product is None else product * x
    return w.cat(slopes, dim)


def _cumprod_tangent(self_t, self, result, dim):
    if self.ndim == 0 or not self.numel():
        return self_t.clone()
    if not bool((self == 0).any()):
        return result * w.cumsum(self_t / self, dim)
    dim = wrapped(dim, self.ndim)
    slopes, product = [], None
    for t, x in zip(_pieces(self_t, dim), _pieces(self, dim), strict=True):
        slopes.append(t if product is None else slopes[-1] * x + product * t)
        product = x if product is None else product * x
    return w.cat(slopes, dim)


cumsum__default = op("CumsumBackward0", _scan(plain.cumsum), LINEAR, self=reversed_cumsum)
cumprod__default = op(
    "CumprodBackward0", _scan(plain.cumprod), jvp(_cumprod_tangent), self=_cumprod_slope
)


def _factors(self, dtype):
    if dtype is not None:
        return self.astype(dtype_named(dtype).numpy)
    return self.astype(np.int64) if self.dtype.kind in "biu" else self


def _prod(self, dtype=None):
    return _prod_dim(self, None, False, dtype)


def _prod_dim(self, dim, keepdim=False, dtype=None):
    factors = _factors(self, dtype)
    if factors.dtype in HALVES:
        return np.asarray(_prod_dim(factors.astype(np.float32), dim, keepdim)).astype(factors.dtype)
    return np.multiply.reduce(factors, axis=dim, dtype=factors.dtype, keepdims=keepdim)


def _others(self, dim):
    """The product of all other elements along a dim; some may be zero."""
    size, before = self.shape[dim], (slice(None),) * dim
    ones = (zeros_like(self) + 1)[(*before, slice(0, 1))]
    left = w.cumprod(self, dim)[(*before, slice(0, size - 1))]
    right = _reversed(w.cumprod(_reversed(self, dim), dim), dim)[(*before, slice(1, size))]
    return w.cat([ones, left], dim) * w.cat([right, ones], dim)


def _prod_slope(grad, self, result):
    if self.ndim == 0:
        return grad
    if not bool((self == 0).any()):
        return grad * (result / self)
    return grad * _others(self.reshape(-1), 0).reshape(tuple(self.shape))


def _prod_dim_slope(grad, self, result, dim, keepdim):
    shape = tuple(self.shape)
    grad = unreduced(grad, shape, (dim,), keepdim)
    if not shape:
        return grad
    if 0 in shape:
        return grad * self
    if not bool((self == 0).any()):
        return grad * (unreduced(result, shape, (dim,), keepdim) / self)
    return grad * _others(self, wrapped(dim, len(shape)))


prod__default = op("ProdBackward0", _prod, REDUCES, ROW_BY_ROW, self=_prod_slope)
prod__dim = op("ProdBackward1", _prod_dim, REDUCES, ROW_BY_ROW, self=_prod_dim_slope)


def _running(ufunc):
    """Cumulative extremes and indices: the last of equal ones; NaN persists once reached."""

    def kernel(self, dim):
        dim = wrapped(dim, self.ndim)
        if not self.ndim:
            return self.copy(), np.zeros((), np.int64)
        values = ufunc.accumulate(self, axis=dim)
        new = (self == values) | (self != self)
        shape = [1] * self.ndim
        shape[dim] = self.shape[dim]
        places = np.where(new, np.arange(self.shape[dim]).reshape(shape), 0)
        return values, np.maximum.accumulate(places, axis=dim)

    return kernel


def _running_slope(grads, self, dim, indices):
    return w.scatter_add(zeros_like(self), dim, indices, grads[0])


RUNNING = outputs("values", "indices", without=("indices",))
NO_LEAST = refuses("c", "\"cummin_cpu\" not implemented for '{kind}'")
NO_ORDER = refuses("c", "\"cummax_cpu\" not implemented for '{kind}'")
cummax__default = op(
    "CummaxBackward0",
    _running(np.maximum),
    IN_PLACES,
    NO_ORDER,
    RUNNING,
    ROW_BY_ROW,
    self=_running_slope,
)
cummin__default = op(
    "CumminBackward0",
    _running(np.minimum),
    IN_PLACES,
    NO_LEAST,
    RUNNING,
    ROW_BY_ROW,
    self=_running_slope,
)


def _logcumsumexp(self, dim):
    wrapped(dim, self.ndim)
    if not self.ndim:
        return self.copy()
    if self.dtype in HALVES:
        return _logcumsumexp(self.astype(np.float32), dim).astype(self.dtype)
    if self.dtype.kind == "c":
        made = self.copy()
        steps = np.moveaxis(made, dim, 0)
        for before, here in itertools.pairwise(range(len(steps))):
            steps[here] = plain.logaddexp(steps[here], steps[before])
        return made
    return np.logaddexp.accumulate(self, axis=dim)


def _logcumsumexp_slope(grad, self, result, dim):
    """In logarithms, separately for positive and negative gradients, so that nothing overflows."""
    if self.ndim == 0:
        return grad
    if is_complex(grad):
        return _part(w.log(grad), self, result, dim)
    size = w.log(w.abs(grad))
    # Not minus infinity: a missing value would turn existing ones into NaN in a second derivative.
    nothing = finfo(result.dtype if hasattr(result, "_array") else from_numpy(result.dtype)).min
    return _part(w.where(grad > 0, size, nothing), self, result, dim) - _part(
        w.where(grad < 0, size, nothing), self, result, dim
    )


def _part(size, self, result, dim):
    return w.exp(_reversed(w.logcumsumexp(_reversed(size - result, dim), dim), dim) + self)


def _logcumsumexp_tangent(self_t, self, result, dim):
    """The cumulative mean of tangents, weighted by exponentials."""
    if self.ndim == 0 or not self.numel():
        return self_t.clone()
    most = self.amax(dim, keepdim=True)
    shift = w.where(w.isfinite(most), most, 0)
    weight = w.exp(result - shift)
    return w.cumsum(w.exp(self - shift) * self_t, dim) / w.where(weight == 0, 1, weight)


logcumsumexp = op(
    "LogcumsumexpBackward0",
    _logcumsumexp,
    jvp(_logcumsumexp_tangent),
    refuses("biu", "\"logcumsumexp_out_cpu\" not implemented for '{kind}'"),
    ROW_BY_ROW,
    self=_logcumsumexp_slope,
)

cumsum___default = inplace(cumsum__default)
cumprod___default = inplace(cumprod__default)
family(globals())


@both
def cumsum(input, dim, *, dtype=None):
    """Cumulative sums along a dim."""
    return cumsum__default(input, dim, dtype)


@method
def cumsum_(self, dim, *, dtype=None):
    return cumsum___default(self, dim, dtype)


@both
def cumprod(input, dim, *, dtype=None):
    """Cumulative products along a dim."""
    return cumprod__default(input, dim, dtype)


@method
def cumprod_(self, dim, *, dtype=None):
    return cumprod___default(self, dim, dtype)


@both
def prod(input, dim=None, keepdim=False, *, dtype=None, axis=None, keepdims=False):
    """The product of all elements, or along a dim."""
    dim = dim if axis is None else axis
    if dim is None:
        return prod__default(input, dtype)
    return prod__dim(input, dim, keepdim or keepdims, dtype)


@both
def cummax(input, dim):
    """Cumulative maxima along a dim, and their indices."""
    return return_types.cummax(*cummax__default(input, dim))


@both
def cummin(input, dim):
    """Cumulative minima along a dim, and their indices."""
    return return_types.cummin(*cummin__default(input, dim))
