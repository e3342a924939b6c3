"""Pseudo-inverse and least squares: pinv, lstsq."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradscope.runtime.core.calls import return_types
from gradscope.runtime.core.calls.declare import (
    BY_HAND,
    INTERNAL,
    TRANSPOSED,
    family,
    joint,
    op,
    outputs,
    tensors,
    w,
)
from gradscope.runtime.core.dtypes.names import scalar_name
from gradscope.runtime.core.kernels.linalg import linalg as kernels
from gradscope.runtime.core.ops.matrix.matrices import as_matrix, as_vector, check_square, mH
from gradscope.runtime.core.ops.matrix.matrix_norms import check_tolerance, tolerances
from gradscope.runtime.core.ops.matrix.solving import is_vector
from gradscope.runtime.core.rows.offered import FUNCTIONS, both
from gradscope.runtime.core.tensors.dims import text


def _pseudo_inverse(self, atol, rtol, hermitian=False):
    rows, columns = self.shape[-2:]
    if hermitian:
        check_square("linalg.eigh", self)
    if not self.size:
        return np.zeros((*self.shape[:-2], columns, rows), self.dtype)
    if hermitian:
        values, u = np.linalg.eigh(self)
        vh, sizes = kernels.adjoint(u), np.abs(values)
    else:
        u, values, vh = np.linalg.svd(self, full_matrices=False)
        sizes = values
    limit = np.maximum(atol, rtol * sizes.max(-1, keepdims=True))
    kept = sizes > limit
    scaled = np.where(kept, 1 / np.where(kept, values, 1), 0).astype(values.dtype)
    return np.ascontiguousarray((kernels.adjoint(vh) * scaled[..., None, :]) @ kernels.adjoint(u))


def pseudo_inverse_slope(grad, self, result):
    """The derivative of A⁺ by A, for constant rank."""
    back, turned = mH(result), mH(grad)
    if self.shape[-2] <= self.shape[-1]:
        k = turned @ result
        outer = k @ back
        rest = (back @ result) @ (turned - k @ self)
        return -mH(result @ k) + outer - (self @ result) @ outer + rest
    k = result @ turned
    outer = back @ k
    rest = ((turned - self @ k) @ result) @ back
    return -mH(k @ result) + rest + outer - (outer @ result) @ self


linalg_pinv__default = op(
    "LinalgPinvBackward0",
    _pseudo_inverse,
    tensors("atol", "rtol"),
    BY_HAND,
    INTERNAL,
    TRANSPOSED,
    self=pseudo_inverse_slope,
)


def _checked_system(self, b):
    name = "torch.linalg.lstsq"
    if self.ndim < 2:
        raise RuntimeError(f"{name}: input must have at least 2 dimensions.")
    if b.ndim < 1:
        raise RuntimeError(f"{name}: other must have at least 1 dimension.")
    if not 0 <= self.ndim - b.ndim <= 1:
        raise RuntimeError(
            f"{name}: input.dim() must be greater or equal to other.dim() and (input.dim() - "
            "other.dim()) <= 1"
        )
    vector = is_vector(self, b)
    if b.shape[-1 if vector else -2] != self.shape[-2]:
        last = "1" if vector else "2"
        raise RuntimeError(f"{name}: input.size(-2) should match other.size(-{last})")
    if self.dtype != b.dtype:
        raise RuntimeError(
            f"{name}: Expected input and other to have the same dtype, but got input's dtype "
            f"{scalar_name(self)} and other's dtype {scalar_name(b)}"
        )
    return vector


def _least_squares(self, b, rcond, driver):
    vector = _checked_system(self, b)
    right = b[..., None] if vector else b
    rows, columns = self.shape[-2:]
    batch = np.broadcast_shapes(self.shape[:-2], right.shape[:-2])
    rank: Any
    real = self.real.dtype
    if not self.size or not right.size:
        shape = (*batch, columns, right.shape[-1])
        solution = np.zeros(shape, self.dtype)
        values, rank = np.zeros((*batch, min(rows, columns)), real), np.zeros(batch, np.int64)
    else:
        u, values, vh = np.linalg.svd(self, full_matrices=False)
        kept = values > rcond * values.max(-1, keepdims=True)
        rank = np.asarray(kept.sum(-1))
        scaled = np.where(kept, 1 / np.where(kept, values, 1), 0).astype(real)
        inner = scaled[..., None] * (kernels.adjoint(u) @ right)
        solution = _over_right_side(kernels.adjoint(vh) @ inner, max(rows, columns))
    residuals = np.zeros(0, real)
    if rows > columns and driver != "gelsy" and (rank == columns).all() and self.size:
        residuals = (np.abs(self @ solution - right) ** 2).sum(-2)
    if driver == "gels":
        rank = np.zeros(0, np.int64)
    if driver not in {"gelsd", "gelss"}:
        values = np.zeros(0, real)
    return (solution[..., 0] if vector else solution), residuals, rank, values


def _over_right_side(solution, rows):
    """As LAPACK returns it: column-major, in the top part of the right side's memory."""
    *batch, columns, count = solution.shape
    room = np.zeros((*batch, count, rows), solution.dtype)
    made = room.swapaxes(-1, -2)[..., :columns, :]
    made[...] = solution
    return made


def _least_squares_slopes(grads, self, b, solution, needs):
    vector = is_vector(self, b)
    grad, found = as_matrix(grads[0], vector), as_matrix(solution, vector)
    right = as_matrix(b, vector)
    inverse = w.linalg_pinv(self, *_exact(self))
    of_self = of_b = None
    if needs[0]:
        of_self = pseudo_inverse_slope(grad @ mH(right), self, inverse)
    if needs[1]:
        of_b = mH(inverse) @ grad
    if grads[1] is not None and grads[1].shape[-1:] != (0,):
        share = w.unsqueeze(grads[1], -2)
        left = (self @ found - right) * share
        left = left + left
        of_self = None if of_self is None else of_self + left @ mH(found)
        of_b = None if of_b is None else of_b - left
    return of_self, None if of_b is None else as_vector(of_b, vector)


def _exact(matrix):
    """The tolerances of an inverse, by the precision of the dtype."""
    array = getattr(matrix, "_array", matrix)
    eps = np.asarray([np.finfo(array.dtype).eps * max(array.shape[-2:])])
    if array is matrix:
        return np.zeros(1), eps
    from gradscope.runtime.core.tensors.making.factories import new_leaf

    return new_leaf(np.zeros(1)), new_leaf(eps)


linalg_lstsq__default = op(
    "LinalgLstsqBackward0",
    _least_squares,
    BY_HAND,
    INTERNAL,
    TRANSPOSED,
    outputs(
        "solution", "residuals", "rank", "singular_values", without=("rank", "singular_values")
    ),
    joint("self", "b", by=_least_squares_slopes),
)
family(globals())

DRIVERS = ("gels", "gelsy", "gelsd", "gelss")


def pinv(A, rcond=None, hermitian=False, *, atol=None, rtol=None):
    """The pseudo-inverse."""
    return _inverted(A, atol if rcond is None else 0.0, rcond if rtol is None else rtol, hermitian)


def _inverted(A, atol, rtol, hermitian):
    if A.dim() < 2 or A._array.dtype.char not in "fdFD":
        raise RuntimeError(
            f"linalg.pinv({A.dtype.scalar_name}{{{text(A._array.shape)}}}): expected a tensor with "
            "2 or more dimensions of float, double, cfloat or cdouble types"
        )
    for name, given in (("atol", atol), ("rtol", rtol)):
        check_tolerance("torch.linalg.pinv", name, given)
    return linalg_pinv__default(A, *tolerances(A, atol, rtol), hermitian)


@both
def pinverse(input, rcond=1e-15):
    return _inverted(input, 0.0, rcond, False)


def lstsq(A, B, rcond=None, *, driver=None):
    """X that minimizes the error of A X = B."""
    if driver is not None and driver not in DRIVERS:
        raise RuntimeError(
            "torch.linalg.lstsq: parameter `driver` should be one of (gels, gelsy, gelsd, gelss)"
        )
    if A.dim() > 1 and A._array.dtype.char not in "fdFD":
        raise RuntimeError("This function doesn't handle types other than float and double")
    if rcond is None and A.dim() > 1:
        rcond = float(np.finfo(A._array.dtype).eps) * max(A.shape[-2:])
    made = linalg_lstsq__default(A, B, rcond, driver or "gelsy")
    return return_types.linalg_lstsq(*made)


FUNCTIONS["linalg.pinv"] = pinv
FUNCTIONS["linalg.lstsq"] = lstsq
