"""Quantiles."""

from __future__ import annotations

from gradscope.runtime.core.calls.extra_arguments.out import written
from gradscope.runtime.core.dtypes import dtypes
from gradscope.runtime.core.ops.pointwise.arithmetic import mul__Scalar
from gradscope.runtime.core.ops.reduce.extremes import any
from gradscope.runtime.core.ops.reduce.sorting import sort
from gradscope.runtime.core.rows.offered import both
from gradscope.runtime.core.tensors.dims import wrapped
from gradscope.runtime.core.tensors.making.factories import full_like
from gradscope.runtime.core.tensors.making.more_factories import scalar_tensor

WAYS = ("linear", "lower", "higher", "midpoint", "nearest")


@both
def quantile(input, q, dim=None, keepdim=False, *, interpolation="linear", out=None):
    """The `q`-quantile."""
    return _quantile("quantile", input, q, dim, keepdim, interpolation, out)


@both
def nanquantile(input, q, dim=None, keepdim=False, *, interpolation="linear", out=None):
    """The `q`-quantile of elements that are not NaN."""
    return _quantile("nanquantile", input, q, dim, keepdim, interpolation, out)


def _quantile(name, input, q, dim, keepdim, interpolation, out):
    if interpolation not in WAYS:
        raise RuntimeError(
            "quantile() interpolation must be one of linear, lower, higher, midpoint or nearest, "
            f"but got {interpolation}"
        )
    if not hasattr(q, "_array"):
        q = _share(input, q)
    dim = None if dim is None else wrapped(dim, input.dim())
    _check(input, q, dim)
    if out is not None and out.dtype is not input.dtype:
        raise RuntimeError("quantile() out tensor must be same dtype as the input tensor")
    made = _interpolated(input, q, dim, keepdim, interpolation, ignore_nan=name == "nanquantile")
    return made if out is None else written(name, made, out)


def _share(input, q):
    if not 0 <= q <= 1:
        raise RuntimeError(f"quantile() q must be in the range [0, 1] but got {q:g}")
    return scalar_tensor(q, dtype=input.dtype)


def _check(input, q, dim):
    if dim is None:
        if not input.numel():
            raise RuntimeError("quantile() input tensor must be non-empty")
    elif input.dim() and not input.shape[dim]:
        raise RuntimeError("quantile() input tensor must be non-empty")
    if q.dim() > 1:
        raise RuntimeError("quantile() q must be a scalar or 1D tensor")
    if input.dtype not in (dtypes.float32, dtypes.float64):
        raise RuntimeError("quantile() input tensor must be either float or double dtype")
    if q.dtype is not input.dtype:
        raise RuntimeError("quantile() q tensor must be same dtype as the input tensor")
    if not bool(((q._array >= 0) & (q._array <= 1)).all()):
        raise RuntimeError("quantile() q values must be in the range [0, 1]")


def _interpolated(input, q, dim, keepdim, interpolation, *, ignore_nan):
    values = _in_order(input, dim).view(_rows(input, dim, keepdim))
    ranks = _ranks(values.detach(), q, ignore_nan=ignore_nan)
    if interpolation in ("lower", "higher", "nearest"):
        step = {"lower": "floor_", "higher": "ceil_", "nearest": "round_"}[interpolation]
        getattr(ranks, step)()
    below = ranks.long()
    made = values.gather(-1, below)
    if interpolation in ("linear", "midpoint"):
        weights = full_like(ranks, 0.5) if interpolation == "midpoint" else ranks - below
        made.lerp_(values.gather(-1, ranks.ceil_().long()), weights)
    if not q.dim():
        return made.squeeze_(-1)
    return made.unsqueeze_(0).transpose_(0, -1).squeeze_(-1)


def _in_order(input, dim):
    """The elements sorted along the last dim, which is the reduced one."""
    if dim is None:
        return sort(input.flatten())[0]
    if dim == input.dim() - 1:
        return sort(input)[0]
    return sort(input.unsqueeze(-1).transpose(dim, -1))[0]


def _rows(input, dim, keepdim):
    """The sizes of the result, and the number of elements for each result."""
    shape = list(input.shape)
    if dim is None or not shape:
        return [*([1] * len(shape) if keepdim else []), input.numel()]
    count = shape.pop(dim)
    if keepdim:
        shape.insert(dim, 1)
    return [*shape, count]


def _ranks(values, q, *, ignore_nan):
    """The positions of quantiles in a row; fractional ones are between two elements."""
    missing = values.isnan()
    if ignore_nan:
        counts = missing.logical_not_().sum(-1, keepdim=True)
        ranks = q * (counts - 1)
        return ranks.masked_fill_(ranks < 0, 0)
    last = values.shape[-1] - 1
    ranks, shape = mul__Scalar(q, last), (*values.shape[:-1], q.numel())
    if tuple(q.shape) != shape:
        ranks = ranks.expand(shape)
    return ranks.masked_fill(any(missing, -1, True), last)
