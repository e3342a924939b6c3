"""Distances between rows: cdist, pdist."""

from __future__ import annotations

import math

import numpy as np

from gradscope.runtime.core.calls.declare import INTERNAL, UNKNOWN, family, op, w
from gradscope.runtime.core.dtypes.names import scalar_name
from gradscope.runtime.core.ops.in_formulas import nn_alias, not_implemented, on_arrays
from gradscope.runtime.core.ops.products.linalg import _same_dtype
from gradscope.runtime.core.rows.offered import function

BLOCK = 1 << 22
"""Number of differences that are computed at once."""


def _norm(far, p):
    """The p-norm of differences over the last dim."""
    if p == 0:
        return (far != 0).sum(-1).astype(far.dtype)
    size = np.abs(far)
    if p == 1:
        return size.sum(-1)
    if p == 2:
        return np.sqrt((far * far).sum(-1))
    if math.isinf(p):
        return size.max(-1, initial=0)
    return (size**p).sum(-1) ** far.dtype.type(1 / p)


def _slope(far, grad, dist, p):
    """The derivative of the p-norm by each difference, times a gradient."""
    grad, dist = grad[..., None], dist[..., None]
    if p == 0:
        return np.zeros_like(far)
    if p == 1:
        return grad * np.sign(far)
    if math.isinf(p):
        return grad * np.sign(far) * (np.abs(far) == dist)
    with np.errstate(divide="ignore", invalid="ignore"):
        if p == 2:
            made = grad * far / dist
        elif p < 2:
            made = np.sign(far) * np.abs(far) ** (p - 1) * grad / dist ** (p - 1)
            made = np.where(far == 0, 0, made) if p < 1 else made
        else:
            made = far * np.abs(far) ** (p - 2) * grad / dist ** (p - 1)
    return np.where(dist == 0, 0, made).astype(far.dtype)


def _row_blocks(x1, x2):
    """Parts of x1's rows whose differences from all of x2 fit into a block."""
    each = max(1, x2.size)
    step = max(1, BLOCK // each)
    rows = x1.shape[-2]
    return [slice(start, start + step) for start in range(0, rows, step)] or [slice(0, 0)]


def _cdist(x1, x2, p, compute_mode=None):
    shape = np.broadcast_shapes(x1.shape[:-2], x2.shape[:-2])
    made = np.zeros((*shape, x1.shape[-2], x2.shape[-2]), x1.dtype)
    if x1.shape[-1]:
        for part in _row_blocks(x1, x2):
            far = x1[..., part, None, :] - x2[..., None, :, :]
            made[..., part, :] = _norm(far, p)
    return made


def _cdist_back(grad, x1, x2, p, cdist):
    """The gradient of x1, in the broadcast batch shape."""
    made = np.zeros((*grad.shape[:-1], x1.shape[-1]), x1.dtype)
    if x1.shape[-1]:
        for part in _row_blocks(x1, x2):
            far = x1[..., part, None, :] - x2[..., None, :, :]
            slopes = _slope(far, grad[..., part, :], cdist[..., part, :], p)
            made[..., part, :] = slopes.sum(-2)
    return made


def _turned(value):
    """Rows as columns, in new memory."""
    if on_arrays(value):
        return np.ascontiguousarray(value.swapaxes(-1, -2))
    return value.transpose(-1, -2).contiguous()


_cdist_forward = op(
    "CdistBackward0",
    _cdist,
    UNKNOWN,
    INTERNAL,
    x1=lambda grad, x1, x2, p, result: w._cdist_backward(grad, x1, x2, p, result),
    x2=lambda grad, x1, x2, p, result: w._cdist_backward(_turned(grad), x2, x1, p, _turned(result)),
)
_cdist_backward = op(
    "CdistBackwardBackward0",
    _cdist_back,
    UNKNOWN,
    INTERNAL,
    grad=not_implemented("_cdist_backward"),
    x1=not_implemented("_cdist_backward"),
    x2=not_implemented("_cdist_backward"),
    cdist=not_implemented("_cdist_backward"),
)


def _euclidean(x1, x2):
    """All distances by one matrix product: |a|² - 2 a·b + |b|²."""
    _same_dtype(x1, x2)
    first, second = ((x * x).sum(-1, keepdims=True) for x in (x1, x2))
    made = np.matmul(x1 * x1.dtype.type(-2), x2.swapaxes(-1, -2))
    made += first
    made += second.swapaxes(-1, -2)
    return np.sqrt(np.maximum(made, 0, made), made)


def _ratio(grad, result):
    if not on_arrays(grad):
        return (grad / result).masked_fill(result == 0, 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(result == 0, 0, grad / result).astype(grad.dtype)


def _across(value):
    return value.swapaxes(-1, -2) if on_arrays(value) else value.transpose(-1, -2)


def _product(left, right):
    return np.matmul(left, right) if on_arrays(left) else left.matmul(right)


def _euclidean_x1(grad, x1, x2, result):
    ratio = _ratio(grad, result)
    return x1 * ratio.sum(-1, keepdims=True) - _product(ratio, x2)


def _euclidean_x2(grad, x1, x2, result):
    return _euclidean_x1(_across(grad), x2, x1, _across(result))


_euclidean_dist = op(
    "EuclideanDistBackward0",
    _euclidean,
    UNKNOWN,
    INTERNAL,
    x1=_euclidean_x1,
    x2=_euclidean_x2,
)


def _pairs(rows):
    return np.triu_indices(rows, 1)


def _pdist(self, p):
    first, second = _pairs(len(self))
    made = np.empty(len(first), self.dtype)
    step = max(1, BLOCK // max(1, self.shape[1]))
    for start in range(0, len(first), step):
        part = slice(start, start + step)
        made[part] = _norm(self[first[part]] - self[second[part]], p)
    return made


def _pdist_back(grad, self, p, pdist):
    first, second = _pairs(len(self))
    slopes = _slope(self[first] - self[second], grad, pdist, p)
    made = np.zeros_like(self)
    np.add.at(made, first, slopes)
    np.subtract.at(made, second, slopes)
    return made


_pdist_forward = op(
    "PdistBackward0",
    _pdist,
    UNKNOWN,
    INTERNAL,
    self=lambda grad, self, p, result: w._pdist_backward(grad, self, p, result),
)
_pdist_backward = op(
    "PdistBackwardBackward0",
    _pdist_back,
    UNKNOWN,
    INTERNAL,
    grad=not_implemented("_pdist_backward"),
    self=not_implemented("_pdist_backward"),
    pdist=not_implemented("_pdist_backward"),
)
family(globals())

MODES = (
    "use_mm_for_euclid_dist_if_necessary",
    "use_mm_for_euclid_dist",
    "donot_use_mm_for_euclid_dist",
)
MANY_ROWS = 25
"""Number of rows from which a matrix product is faster."""


@function
def cdist(x1, x2, p=2.0, compute_mode=MODES[0]):
    """The distance of each row of `x1` from each row of `x2`."""
    if compute_mode not in MODES:
        raise ValueError(f"{compute_mode} is not a valid value for compute_mode")
    _check_cdist(x1, x2, p)
    rows, others, p = x1.size(-2), x2.size(-2), float(p)
    mode = MODES.index(compute_mode)
    wide = mode == 1 or (mode == 0 and (rows > MANY_ROWS or others > MANY_ROWS))
    if p != 2 or not wide or not x1.numel() or not x2.numel():
        return _cdist_forward(x1, x2, p, mode or None)
    batch = np.broadcast_shapes(tuple(x1.shape[:-2]), tuple(x2.shape[:-2]))
    if math.prod(batch) != 1:
        x1, x2 = (
            x.expand(*batch, *x.shape[-2:]).contiguous().view(-1, *x.shape[-2:]) for x in (x1, x2)
        )
    return _euclidean_dist(x1, x2).view(*batch, rows, others)


def _check_cdist(x1, x2, p):
    for name, x in (("X1", x1), ("X2", x2)):
        if x.dim() < 2:
            raise RuntimeError(f"cdist only supports at least 2D tensors, {name} got: {x.dim()}D")
    if x1.size(-1) != x2.size(-1):
        raise RuntimeError(
            f"X1 and X2 must have the same number of columns. X1: {x1.size(-1)} X2: {x2.size(-1)}"
        )
    for name, x in (("X1", x1), ("X2", x2)):
        if not x.is_floating_point():
            kind = scalar_name(x._array)
            raise RuntimeError(f"cdist only supports floating-point dtypes, {name} got: {kind}")
    if p < 0:
        raise RuntimeError("cdist only supports non-negative p values")


@function
def pdist(input, p=2.0):
    """The distance of each pair of rows."""
    if input.dim() != 2:
        raise RuntimeError(f"pdist only supports 2D tensors, got: {input.dim()}D")
    if not input.is_floating_point():
        raise RuntimeError("pdist only supports floating-point dtypes")
    if p < 0:
        raise RuntimeError("pdist only supports non-negative p values")
    return _pdist_forward(input.contiguous(), float(p))


nn_alias(pdist, "pdist")
