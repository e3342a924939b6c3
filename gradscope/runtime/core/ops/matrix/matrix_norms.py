"""Norms and condition of matrices: matrix_norm, linalg.norm, cond, matrix_rank."""

from __future__ import annotations

import math

import numpy as np

from gradscope.runtime.core.ops.matrix.decompositions import svdvals
from gradscope.runtime.core.ops.matrix.eigenvalues import eigvalsh
from gradscope.runtime.core.ops.matrix.inverse import linalg_inv_ex__default as inverted
from gradscope.runtime.core.ops.matrix.matrices import (
    check_floating,
    check_matrix,
    check_precise,
    check_square,
)
from gradscope.runtime.core.ops.reduce.extremes import amax, amin
from gradscope.runtime.core.ops.reduce.norms import check_dtype, vector_norm
from gradscope.runtime.core.rows.offered import FUNCTIONS
from gradscope.runtime.core.tensors.dims import text, wrapped


def _shown(number):
    return f"{number:g}" if isinstance(number, float) else str(number)


def _checked_dims(A, dim):
    dims = (dim,) if isinstance(dim, int) else tuple(dim)
    if len(dims) != 2:
        raise RuntimeError(
            f"linalg.matrix_norm: dim must be a 2-tuple. Got {' '.join(map(str, dims))}"
        )
    first, second = (wrapped(d, A.dim()) for d in dims)
    if first == second:
        raise RuntimeError(
            f"linalg.matrix_norm: dims must be different. Got ({dims[0]}, {dims[1]})"
        )
    return first, second


def matrix_norm(A, ord="fro", dim=(-2, -1), keepdim=False, *, dtype=None):
    """The norm of each matrix, formed by two of the dims."""
    array = A._array
    check_matrix("linalg.matrix_norm", array)
    by_values = ord == "nuc" or (not isinstance(ord, str) and abs(ord) == 2)
    (check_precise if by_values else check_floating)("linalg.matrix_norm", array)
    first, second = _checked_dims(A, dim)
    if dtype is not None:
        check_dtype("linalg.matrix_norm", A, dtype)
        A = A.to(dtype)
    if ord == "fro":
        return vector_norm(A, 2, (first, second), keepdim)
    if isinstance(ord, str) and ord != "nuc":
        raise RuntimeError(f"linalg.matrix_norm: Order {ord} not supported.")
    if by_values:
        return _of_singular_values(A, ord, first, second, keepdim)
    if abs(ord) not in {1, math.inf}:
        raise RuntimeError(f"linalg.matrix_norm: Order {_shown(ord)} not supported.")
    if math.isinf(ord):
        first, second = second, first
    if not keepdim and first < second:
        second -= 1
    sums = vector_norm(A, 1.0, (first,), keepdim)
    return _extreme(sums, ord, second, keepdim)


def _extreme(values, ord, dim, keepdim):
    """The largest or smallest value; zero if there are none."""
    if not values.shape[dim]:
        return values.sum((dim,), keepdim)
    return (amax if ord > 0 else amin)(values, (dim,), keepdim)


def _of_singular_values(A, ord, first, second, keepdim):
    order = [d for d in range(A.dim()) if d not in {first, second}] + [first, second]
    values = svdvals(A.permute(order))
    if ord == "nuc" or not values.shape[-1]:
        made = values.sum((-1,), keepdim)
    else:
        made = (amax if ord > 0 else amin)(values, (-1,), keepdim)
    if not keepdim:
        return made
    return made.unsqueeze(-1).permute([order.index(d) for d in range(A.dim())])


def linalg_norm(A, ord=None, dim=None, keepdim=False, *, dtype=None):
    """The norm of vectors along one dim, of matrices along two, or of all elements."""
    dims = None if dim is None else (dim,) if isinstance(dim, int) else tuple(dim)
    if dims is not None and len(dims) not in {1, 2}:
        raise RuntimeError(
            "linalg.norm: If dim is specified, it must be of length 1 or 2. Got " + text(dims)
        )
    if dims is None and ord is not None and A.dim() not in {1, 2}:
        raise RuntimeError(
            "linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got "
            f"{A.dim()}D."
        )
    of_matrix = isinstance(ord, str) or (dims is None and A.dim() == 2)
    if ord is not None and (of_matrix or (dims is not None and len(dims) == 2)):
        return matrix_norm(A, ord, (0, 1) if dims is None else dims, keepdim, dtype=dtype)
    return vector_norm(A, 2.0 if ord is None else ord, dims, keepdim, dtype=dtype)


def cond(A, p=None):
    """The condition number."""
    if A.dim() < 2:
        raise RuntimeError("linalg.cond: The input tensor must have at least 2 dimensions.")
    if p is None or (not isinstance(p, str) and abs(p) == 2):
        return _cond_of_values(A, p)
    if p not in {"fro", "nuc", 1, -1, math.inf, -math.inf}:
        raise RuntimeError(f"linalg.cond got an invalid norm type: {_shown(p)}")
    check_square(f"linalg.cond(ord={_shown(p)})", A._array)
    if not A.numel():
        return A.new_zeros(A.shape[:-2])
    if p == "nuc":
        values = svdvals(A)
        return values.sum((-1,)) * values.reciprocal().sum((-1,))
    made, info = inverted(A, "linalg.inv")
    singular = (info != 0).unsqueeze(-1).unsqueeze(-1)
    made.masked_fill_(singular, math.inf)
    return (matrix_norm(A, p) * matrix_norm(made, p)).nan_to_num(math.inf)


def _cond_of_values(A, p):
    values = svdvals(A)
    count = values.shape[-1]
    if not count:
        return A.new_zeros(A.shape[:-2]).to(values.dtype)
    greatest, least = values.narrow(-1, 0, 1), values.narrow(-1, count - 1, 1)
    made = least / greatest if p == -2 else greatest / least
    return made.squeeze(-1)


def matrix_rank(A, tol=None, hermitian=False, *, atol=None, rtol=None):
    """The number of singular values above the tolerance."""
    array = A._array
    check_matrix("torch.linalg.matrix_rank", array, "input")
    if array.dtype.char not in "fdFD":
        raise RuntimeError("This function doesn't handle types other than float and double")
    absolute = tol if tol is not None else atol
    rtol = 0.0 if tol is not None else rtol
    for name, given in (("atol", absolute), ("rtol", rtol)):
        check_tolerance("torch.linalg.matrix_rank", name, given)
    A = A.detach()
    values = eigvalsh(A).abs() if hermitian else svdvals(A)
    if not values.shape[-1]:
        return values.sum((-1,)).long()
    greatest = amax(values, (-1,), True)
    limits = tolerances(A, absolute, rtol)
    limit = FUNCTIONS["maximum"](limits[0].to(values.dtype), limits[1].to(values.dtype) * greatest)
    return (values > limit).sum((-1,))


def check_tolerance(name, what, given):
    if hasattr(given, "_array") and given.is_complex():
        raise RuntimeError(
            f"{name}: {what} tensor of complex type is not supported. Got {given.dtype.scalar_name}"
        )


def tolerances(A, atol, rtol):
    """Both as tensors with a dim for the values; the relative one depends on the dtype."""
    eps = float(np.finfo(A._array.dtype).eps) * max(A.shape[-2:])
    absolute = _as_column(0.0 if atol is None else atol)
    if rtol is None:
        relative = FUNCTIONS["where"](absolute > 0, 0.0, eps)
        return absolute, relative
    return absolute, _as_column(rtol)


def _as_column(given):
    if hasattr(given, "_array"):
        return given.detach().double().unsqueeze(-1)
    from gradscope.runtime.core.tensors.making.factories import new_leaf

    return new_leaf(np.asarray([given], np.float64))


FUNCTIONS["linalg.matrix_norm"] = matrix_norm
FUNCTIONS["linalg.norm"] = linalg_norm
FUNCTIONS["linalg.cond"] = cond
FUNCTIONS["linalg.matrix_rank"] = matrix_rank
