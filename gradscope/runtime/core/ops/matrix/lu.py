"""LU factorizations: lu, lu_factor, lu_solve, lu_unpack."""

from __future__ import annotations

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
from gradscope.runtime.core.calls.extra_arguments.out import written
from gradscope.runtime.core.kernels.linalg import linalg as kernels
from gradscope.runtime.core.ops.in_formulas import on_arrays
from gradscope.runtime.core.ops.matrix.matrices import (
    all_written,
    check_floating,
    check_kernel,
    check_matrix,
    check_square,
    check_together,
    constant,
    mH,
)
from gradscope.runtime.core.ops.matrix.solving import lu_solved
from gradscope.runtime.core.ops.shape.broadcasting import broadcast_shape
from gradscope.runtime.core.ops.shape.joining import cat
from gradscope.runtime.core.rows.offered import FUNCTIONS, both, function
from gradscope.runtime.core.tensors.dims import text


def _needs_dims(name, matrix):
    if matrix.ndim < 2:
        raise RuntimeError(
            f"{name}: Expected tensor with 2 or more dimensions. Got size: {text(matrix.shape)} "
            "instead"
        )


def _needs_pivoting(name, pivot):
    if not pivot:
        raise RuntimeError(f"{name}: LU without pivoting is not implemented on the CPU")


def _factored(A, pivot=True):
    _needs_dims("torch.lu_factor", A)
    check_kernel("lu_cpu", A)
    _needs_pivoting("linalg.lu_factor", pivot)
    return kernels.lu(A)


def side_by_side(first, second, dim):
    """Two blocks as one matrix, on arrays or tensors."""
    if on_arrays(first):
        return np.concatenate((first, second), dim)
    return cat((first, second), dim)


def _permuted(pivots, like, back):
    """P X, or Pᴴ X, as a function of X."""
    array = getattr(pivots, "_array", pivots)
    dtype = getattr(like, "_array", like).dtype
    matrix = constant(kernels.permutation(array, like.shape[-2], dtype), like)
    return mH(matrix) if back else matrix


def factor_slope(of_lower, of_upper, lower, upper):
    """The gradient of P⁻¹A, from those of both factors; unread triangles are arbitrary."""
    rows, columns = lower.shape[-2], upper.shape[-1]
    count = min(rows, columns)
    first, second = lower[..., :count, :], upper[..., :, :count]
    inner_lower, inner_upper = of_lower[..., :count, :], of_upper[..., :, :count]
    from_lower, from_upper = mH(first) @ inner_lower, inner_upper @ mH(second)
    if rows < columns:
        from_lower = from_lower - of_upper[..., count:] @ mH(upper[..., count:])
    elif rows > columns:
        from_upper = from_upper - mH(lower[..., count:, :]) @ of_lower[..., count:, :]
    middle = w.tril(from_lower, -1) + w.triu(from_upper, 0)
    if rows < columns:
        turned = w.linalg_solve_triangular(mH(second), middle, False, False, False)
        both_parts = side_by_side(turned, of_upper[..., count:], -1)
        return w.linalg_solve_triangular(mH(first), both_parts, True, True, True)
    turned = w.linalg_solve_triangular(mH(first), middle, True, True, True)
    if rows > columns:
        turned = side_by_side(turned, of_lower[..., count:, :], -2)
    return w.linalg_solve_triangular(mH(second), turned, False, False, False)


def _parts(factors):
    """L with its unit diagonal, and U."""
    count = min(factors.shape[-2:])
    eye = np.eye(factors.shape[-2], count)
    lower = w.tril(factors[..., :count], -1) + constant(eye, factors)
    return lower, w.triu(factors[..., :count, :], 0)


def _factored_slope(grads, LU, pivot, pivots):
    grad = grads[0]
    count = min(LU.shape[-2:])
    lower, upper = _parts(LU)
    of_lower, of_upper = w.tril(grad[..., :count], -1), w.triu(grad[..., :count, :], 0)
    slope = factor_slope(of_lower, of_upper, lower, upper)
    return _permuted(pivots, LU, False) @ slope


linalg_lu_factor_ex__default = op(
    "LinalgLuFactorExBackward0",
    _factored,
    BY_HAND,
    INTERNAL,
    TRANSPOSED,
    outputs("LU", "pivots", "info", without=("pivots", "info")),
    A=_factored_slope,
)


def _whole(A, pivot=True):
    _needs_dims("linalg.lu", A)
    check_kernel("lu_cpu", A)
    _needs_pivoting("linalg.lu", pivot)
    factors, pivots, _ = kernels.lu(A)
    lower, upper = _parts(factors)
    return lower, upper, kernels.permutation(pivots, A.shape[-2], A.dtype)


def _whole_slope(grads, P, L, U, pivot):
    return P @ factor_slope(grads[0], grads[1], L, U)


linalg_lu__default = op(
    "LinalgLuBackward0",
    _whole,
    BY_HAND,
    INTERNAL,
    TRANSPOSED,
    outputs("L", "U", "P", without=("P",)),  # the node counts outputs with a gradient
    A=_whole_slope,
)


def _unpacked(
    LU_data,
    LU_pivots,
    unpack_data,
    unpack_pivots,
    LU_data_sym_argsize_minus_1,
    LU_data_sym_argsize_minus_2,
):
    _needs_dims("torch.lu_unpack", LU_data)
    if unpack_pivots and LU_pivots.dtype != np.int32:
        raise RuntimeError(
            "torch.lu_unpack: LU_pivots is expected to be a contiguous tensor of torch.int32 dtype."
        )
    rows = LU_data.shape[-2]
    nothing = np.zeros(0, LU_data.dtype)
    matrix, lower, upper = nothing, nothing, nothing
    if unpack_pivots:
        if LU_pivots.size and (LU_pivots.min() < 1 or LU_pivots.max() > rows):
            raise RuntimeError(
                "pivots passed to lu_unpack must be between 1 and LU.size(-2) inclusive.Did you "
                "properly pass the result of lu_factor?"
            )
        matrix = kernels.permutation(LU_pivots, rows, LU_data.dtype)
    if unpack_data:
        lower, upper = _parts(LU_data)
    return matrix, lower.astype(LU_data.dtype), upper


def _unpacked_slope(grads, LU_data_sym_argsize_minus_1, LU_data_sym_argsize_minus_2):
    of_lower, of_upper = grads[1], grads[2]
    rows, columns = LU_data_sym_argsize_minus_2, LU_data_sym_argsize_minus_1
    of_lower, of_upper = w.tril(of_lower, -1), w.triu(of_upper, 0)
    if rows < columns:
        return side_by_side(of_lower + of_upper[..., :rows], of_upper[..., rows:], -1)
    if rows > columns:
        return side_by_side(of_lower[..., :columns, :] + of_upper, of_lower[..., columns:, :], -2)
    return of_lower + of_upper


lu_unpack__default = op(
    "LuUnpackBackward0",
    _unpacked,
    BY_HAND,
    INTERNAL,
    tensors("LU_pivots"),
    TRANSPOSED,
    outputs("P", "L", "U", without=("P",)),
    LU_data=_unpacked_slope,
)


def _solved(LU, pivots, B, left=True, adjoint=False):
    name = "linalg.lu_solve"
    check_square("torch.linalg.lu_solve", LU)
    check_floating("torch.linalg.lu_solve", LU)
    if LU.dtype != B.dtype:
        check_together(name, LU, B, left, ("LU", "B"))
    check_matrix(name, B, "B")
    if pivots.dtype != np.int32:
        raise RuntimeError(f"{name}: pivots should be a Tensor of scalar type torch.int32")
    check_together(name, LU, B, left)
    if pivots.shape[-1] != LU.shape[-1]:
        raise RuntimeError(
            f"{name}: Number of pivots per batch should be same as the dimension of the matrix"
        )
    check_kernel(f"{name}_cpu", LU)
    if pivots.size and pivots.max() > LU.shape[-2]:
        raise RuntimeError(
            "Pivots given to lu_solve must all be smaller or equal to LU.size(-2). Did you "
            "properly pass the result of lu_factor?"
        )
    batch = broadcast_shape([LU.shape[:-2], B.shape[:-2]])
    B = np.broadcast_to(B, (*batch, *B.shape[-2:]))
    return lu_solved(LU, pivots, B, left, adjoint)


def _solved_slopes(grad, LU, pivots, result, left, adjoint, needs):
    slope = w.linalg_lu_solve(LU, pivots, grad, left, not adjoint)
    of_factors = None
    if needs[0]:
        product = -(slope @ mH(result)) if left else -(mH(result) @ slope)
        of_matrix = mH(product) if adjoint else product
        lower, upper = _parts(LU)
        moved = _permuted(pivots, LU, True) @ of_matrix
        of_factors = w.tril(moved @ mH(upper), -1) + w.triu(mH(lower) @ moved, 0)
    return of_factors, slope if needs[1] else None


linalg_lu_solve__default = op(
    "LinalgLuSolveBackward0",
    _solved,
    tensors("pivots"),
    BY_HAND,
    INTERNAL,
    TRANSPOSED,
    joint("LU", "B", by=_solved_slopes),
)
family(globals())

# -- public functions ---------------------------------------------------------------------------


def _check_info(name, info):
    bad = np.flatnonzero(info._array)
    if len(bad):
        nr = int(info._array.flat[bad[0]])
        which = f"(Batch element {bad[0]}): " if info._array.ndim else ""
        raise RuntimeError(
            f"{name}: {which}U[{nr},{nr}] is zero and using it on lu_solve would result in a "
            "division by zero. If you still want to perform the factorization, consider calling "
            "linalg.lu(A, pivot) or linalg.lu_factor_ex(A, pivot)"
        )


def lu_factor_ex(A, *, pivot=True, check_errors=False, out=None):
    """Both triangles in one matrix, the row swaps, and the first zero pivot."""
    made = linalg_lu_factor_ex__default(A, pivot)
    if check_errors:
        _check_info("torch.linalg.lu_factor_ex", made[2])
    return return_types.linalg_lu_factor_ex(*all_written("linalg_lu_factor_ex", made, out))


def lu_factor(A, *, pivot=True, out=None):
    factors, pivots, info = linalg_lu_factor_ex__default(A, pivot)
    _check_info("torch.linalg.lu_factor", info)
    return return_types.linalg_lu_factor(*all_written("linalg_lu_factor", (factors, pivots), out))


def lu(A, *, pivot=True, out=None):
    """P, L and U, whose product is A."""
    lower, upper, permutation = linalg_lu__default(A, pivot)
    made = permutation, lower, upper
    return return_types.linalg_lu(*all_written("linalg_lu", made, out))


def lu_solve(LU, pivots, B, *, left=True, adjoint=False, out=None):
    """X of A X = B, from the result of `lu_factor`."""
    made = linalg_lu_solve__default(LU, pivots, B, left, adjoint)
    return written("linalg_lu_solve", made, out)


@function
def lu_unpack(LU_data, LU_pivots, unpack_data=True, unpack_pivots=True, *, out=None):
    """P, L and U from the result of `lu_factor`."""
    rows, columns = LU_data.shape[-2:] if LU_data.dim() > 1 else (0, 0)
    made = lu_unpack__default(LU_data, LU_pivots, unpack_data, unpack_pivots, columns, rows)
    return return_types.lu_unpack(*all_written("lu_unpack", made, out))


def _old_solve(input, LU_data, LU_pivots, *, out=None):
    return written("lu_solve", linalg_lu_solve__default(LU_data, LU_pivots, input), out)


def _old_lu(A, pivot=True, get_infos=False, out=None):
    """The old name of lu_factor, which returns a plain tuple."""
    made = linalg_lu_factor_ex__default(A, pivot)
    made = made if get_infos else made[:2]
    return tuple(made) if out is None else all_written("lu", made, out)


_old_solve.__name__, _old_lu.__name__ = "lu_solve", "lu"
both(_old_solve)
both(_old_lu)
FUNCTIONS["linalg.lu_factor"] = lu_factor
FUNCTIONS["linalg.lu_factor_ex"] = lu_factor_ex
FUNCTIONS["linalg.lu"] = lu
FUNCTIONS["linalg.lu_solve"] = lu_solve
