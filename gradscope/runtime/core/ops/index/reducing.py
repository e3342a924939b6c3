"""Reductions into indices: scatter_reduce, index_reduce."""

from __future__ import annotations

import numpy as np

from gradscope.runtime.core.autograd.custom.once_differentiable import undifferentiable
from gradscope.runtime.core.calls.declare import UNKNOWN, family, inplace, joint, op, tensors, w
from gradscope.runtime.core.dtypes import dtypes
from gradscope.runtime.core.dtypes.limits import iinfo
from gradscope.runtime.core.kernels.support import HALVES
from gradscope.runtime.core.ops.in_formulas import on_arrays, zeros_like
from gradscope.runtime.core.ops.index.gathering import bounded, reach
from gradscope.runtime.core.ops.index.scattering import APART, check_rows, checked, lifted
from gradscope.runtime.core.rows.offered import both, method
from gradscope.runtime.core.state.thread import local
from gradscope.runtime.core.state.warned import warn

WAYS = {"sum": np.add, "mean": np.add, "prod": np.multiply, "amax": np.maximum, "amin": np.minimum}


def _start(reduce, kind):
    """The identity element of a reduction."""
    if reduce in ("sum", "mean"):
        return 0
    if reduce == "prod":
        return 1
    if kind.kind == "b":
        return reduce == "amin"
    if kind.kind in "iu":
        limits = iinfo(dtypes.from_numpy(kind))
        return limits.min if reduce == "amax" else limits.max
    return -np.inf if reduce == "amax" else np.inf


def _reduce_at(target, places, values, reduce, include_self):
    """Reduce values into an array at indices that may repeat."""
    if not include_self:
        target[places] = _start(reduce, target.dtype)
    wide = target.astype(np.float32) if target.dtype in HALVES else target
    WAYS[reduce].at(wide, places, values.astype(wide.dtype, copy=False))
    if reduce == "mean":
        _divide(wide, _counts(target, places, include_self))
    if wide is not target:
        target[...] = wide


def _counts(target, places, include_self):
    counts = np.full(target.shape, int(include_self), np.int64)
    np.add.at(counts, places, 1)
    return np.maximum(counts, 1)


def _divide(target, counts):
    if target.dtype.kind in "iu":
        target[...] = target // counts
    else:
        target /= counts.astype(target.real.dtype)


def _scatter_reduced(self, dim, index, src, reduce, include_self=True):
    _known_way(reduce, WAYS, "reduce argument must be either sum, prod, mean, amax or amin, got ")
    dim = checked(self, dim, index, src, "scatter_reduce")
    target, index, src = lifted(self, index, src)
    if index.size:
        values = src[tuple(map(slice, index.shape))]
        _reduce_at(target, reach(index, dim), values, reduce, include_self)
    return self


def _known_way(reduce, known, text):
    if reduce not in known:
        raise RuntimeError(f"{text}{reduce}.")


def _prod_slopes(grad, self, src, result, ways, label):
    """Gradients of prod: if one factor is zero, its gradient is the product of the others."""
    spread, pick, _, again = ways
    masked_self = _filled(self, self == 0, 1)
    grad_self = grad * again(masked_self, src) / masked_self
    zero = src == 0
    counts = pick(spread(zeros_like(self), _as(zero, self)))
    single = zero & (counts == 1)
    others = again(self, _filled(src, single, 1))
    grad_src = w.where(single, pick(grad * others), pick(grad * result) / _filled(src, zero, 1))
    recorded = not on_arrays(grad) and local.state.grad_enabled
    if recorded and bool((zero & (counts > 1)).any()):
        (grad_src,) = undifferentiable([grad_src], ONLY_ONCE.format(*label))
    return grad_self, grad_src


ONLY_ONCE = (
    "{0}(): Double backward is unsupported for {1} when >1 zeros in {1} are scattered to the same "
    "position in self"
)


def _filled(values, mask, number):
    return getattr(w, "masked_fill.Scalar")(values, mask, number)


def _index_added(into, dim, index, values):
    return w.index_add(into, dim, index, values, 1, values.ndim)


def _as(mask, like):
    return mask.astype(like.dtype) if on_arrays(mask) else mask.to(like.dtype)


def _slopes(grad, self, src, result, reduce, include_self, ways, label):
    """The gradients of both inputs. `ways`: how to spread, pick, clear and reduce by the index."""
    spread, pick, clear, _ = ways
    if reduce == "sum":
        grads = grad, pick(grad)
    elif reduce == "prod":
        grads = _prod_slopes(grad, self, src, result, ways, label)
    elif reduce == "mean":
        ones = zeros_like(grad) + 1 if include_self else zeros_like(grad)
        counts = spread(ones, zeros_like(src) + 1)
        share = grad / _filled(counts, counts == 0, 1)
        grads = share, pick(share)
    else:
        value = pick(result)
        best_self, best_src = _as(self == result, self), _as(src == value, src)
        share = grad / (best_self + spread(zeros_like(self), best_src))
        grads = best_self * share, best_src * pick(share)
    return (grads[0] if include_self else clear(grads[0])), grads[1]


def _scatter_ways(dim, index, reduce, include_self):
    return (
        lambda into, values: w.scatter_add(into, dim, index, values),
        lambda values: w.gather(values, dim, index),
        lambda values: w._scattered_zero(values, dim, index),
        lambda self, src: w.scatter_reduce(
            self, dim, index, src, reduce, include_self=include_self
        ),
    )


def _scatter_slopes(grad, self, dim, index, src, reduce, include_self, result):
    ways = _scatter_ways(dim, index, reduce, include_self)
    return _slopes(grad, self, src, result, reduce, include_self, ways, ("scatter_reduce", "src"))


scatter_reduce = op(
    "ScatterReduceBackward0",
    lambda self, dim, index, src, reduce, *, include_self=True: _scatter_reduced(
        np.array(self), dim, index, src, reduce, include_self
    ),
    UNKNOWN,
    tensors("index"),
    joint("self", "src", by=_scatter_slopes),
)
scatter_reduce_ = inplace(
    scatter_reduce,
    lambda self, dim, index, src, reduce, *, include_self=True: _scatter_reduced(
        self, dim, index, src, reduce, include_self
    ),
    APART,
)


def _index_reduced(self, dim, index, source, reduce, include_self=True):
    if reduce not in ("prod", "mean", "amax", "amin"):
        raise RuntimeError(
            "index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got "
            f"{reduce}."
        )
    dim = check_rows(self, dim, index, source, "index_reduce")
    if index.size:
        target = self.reshape(-1) if not self.ndim else self
        bounded(index, dim, target.shape[dim])
        places = (slice(None),) * dim + (index.reshape(-1),)
        values = source.reshape(-1) if not self.ndim else source
        _reduce_at(target, places, values, reduce, include_self)
    return self


def _index_slopes(grad, self, dim, index, source, reduce, include_self, result):
    ways = (
        lambda into, values: _index_added(into, dim, index, values),
        lambda values: w.index_select(values, dim, index),
        lambda values: w._index_cleared(values, dim, index),
        lambda self, source: w.index_reduce(
            self, dim, index, source, reduce, include_self=include_self
        ),
    )
    label = ("index_reduce", "source")
    return _slopes(grad, self, source, result, reduce, include_self, ways, label)


index_reduce__default = op(
    "IndexReduceBackward0",
    lambda self, dim, index, source, reduce, *, include_self=True: _index_reduced(
        np.array(self), dim, index, source, reduce, include_self
    ),
    UNKNOWN,
    tensors("index"),
    joint("self", "source", by=_index_slopes),
)
index_reduce___default = inplace(
    index_reduce__default,
    lambda self, dim, index, source, reduce, *, include_self=True: _index_reduced(
        self, dim, index, source, reduce, include_self
    ),
    APART,
)
family(globals())

BETA = "index_reduce() is in beta and the API may change at any time."


@both
def index_reduce(input, dim, index, source, reduce, *, include_self=True):
    """Reduce rows of `source` into the indexed rows."""
    warn(BETA)
    return index_reduce__default(input, dim, index, source, reduce, include_self=include_self)


@method
def index_reduce_(self, dim, index, source, reduce, *, include_self=True):
    warn(BETA)
    return index_reduce___default(self, dim, index, source, reduce, include_self=include_self)
