"""Linear equations: solve, solve_triangular, cholesky_solve, triangular_solve."""

from __future__ import annotations

import numpy as np

from gradscope.runtime.core.calls import return_types
from gradscope.runtime.core.calls.declare import (
    BY_HAND,
    INTERNAL,
    TRANSPOSED,
    family,
    joint,
    jvp,
    op,
    outputs,
    w,
)
from gradscope.runtime.core.calls.extra_arguments.out import written
from gradscope.runtime.core.dtypes import dtypes
from gradscope.runtime.core.kernels.linalg import linalg as kernels
from gradscope.runtime.core.ops.in_formulas import on_arrays
from gradscope.runtime.core.ops.matrix.matrices import (
    all_written,
    as_matrix,
    as_vector,
    check_floating,
    check_kernel,
    check_matrix,
    check_pair,
    check_square,
    check_together,
    conjugate,
    mH,
    mT,
    raise_for,
)
from gradscope.runtime.core.ops.shape.broadcasting import broadcast_shape
from gradscope.runtime.core.rows.offered import FUNCTIONS, both


def is_vector(a, b):
    """Whether B is one vector, or one for each matrix of the batch."""
    return len(b.shape) == 1 or tuple(b.shape) == tuple(a.shape[:-1])


def _solved(A, B, left=True):
    name = "linalg.solve"
    check_square(name, A)
    check_floating(name, A)
    if B.ndim == 0 and A.dtype == B.dtype:
        check_matrix(name, B, "B")
    vector = is_vector(A, B)
    b = B[..., None] if vector else B
    check_together(name, A, b if B.ndim else B.reshape(1, 1), left)
    check_kernel("lu_cpu", A)
    batch = broadcast_shape([A.shape[:-2], b.shape[:-2]])
    factors, pivots, info = kernels.lu(A)
    b = np.broadcast_to(b, (*batch, *b.shape[-2:]))
    made = lu_solved(factors, pivots, b, left, False)
    if vector:  # PyTorch interleaves several of them: first elements first
        made = kernels.columns_first(made[..., 0]) if made.ndim > 2 else made[..., 0]
    return made, factors, pivots, info


def lu_solved(LU, pivots, B, left, adjoint):
    """In column-major order. X A = B is Aᴴ Xᴴ = Bᴴ, in row-major order."""
    if left:
        return kernels.columns_first(kernels.lu_solve(LU, pivots, B, adjoint))
    turned = kernels.lu_solve(LU, pivots, kernels.adjoint(B), not adjoint)
    return np.ascontiguousarray(kernels.adjoint(turned))


def _solved_slopes(grads, A, LU, pivots, result, left, needs):
    vector = is_vector(A, result)
    grad = as_matrix(grads[0], vector)
    if on_arrays(grad):
        slope = lu_solved(LU, pivots, grad, left, True)
    else:
        slope = w._linalg_solve_ex(mH(A), grad, left)[0]
    found = as_matrix(result, vector)
    of_a = None
    if needs[0]:
        of_a = -(slope @ mH(found)) if left else -(mH(found) @ slope)
    return of_a, as_vector(slope, vector) if needs[1] else None


def _solved_tangent(A_t, B_t, A, result, left):
    vector = is_vector(A, result)
    right = None if B_t is None else as_matrix(B_t, vector)
    if A_t is not None:
        found = as_matrix(result, vector)
        turned = A_t @ found if left else found @ A_t
        right = -turned if right is None else right - turned
    made = w._linalg_solve_ex(A, right, left)[0]
    return as_vector(made, vector), None, None, None


_linalg_solve_ex = op(
    "LinalgSolveExBackward0",
    _solved,
    BY_HAND,
    INTERNAL,
    outputs("result", "LU", "pivots", "info", without=("LU", "pivots", "info")),
    jvp(_solved_tangent),
    joint("A", "B", by=_solved_slopes),
)


def _triangle_solved(self, B, upper, left=True, unitriangular=False):
    name = "linalg.solve_triangular"
    check_square(name, self)
    check_matrix(name, B, "B")
    check_together(name, self, B, left)
    check_kernel("triangular_solve_cpu", self)
    broadcast_shape([self.shape[:-2], B.shape[:-2]])
    if left:
        return kernels.columns_first(kernels.solve_triangular(self, B, upper, unitriangular))
    turned = kernels.solve_triangular(
        self.swapaxes(-1, -2), B.swapaxes(-1, -2), not upper, unitriangular
    )
    return turned.swapaxes(-1, -2)


def _triangle_slopes(grad, self, result, upper, left, unitriangular, needs):
    slope = w.linalg_solve_triangular(mH(self), grad, not upper, left, unitriangular)
    of_a = None
    if needs[0]:
        of_a = -(slope @ mH(result)) if left else -(mH(result) @ slope)
        of_a = kept(of_a, upper, unitriangular)
    return of_a, slope if needs[1] else None


def kept(x, upper, unit):
    """The triangle that the operation reads."""
    return w.triu(x, int(unit)) if upper else w.tril(x, -int(unit))


def _triangle_tangent(self_t, B_t, self, result, upper, left, unitriangular):
    right = B_t
    if self_t is not None:
        part = kept(self_t, upper, unitriangular)
        turned = part @ result if left else result @ part
        right = -turned if right is None else right - turned
    return w.linalg_solve_triangular(self, right, upper, left, unitriangular)


linalg_solve_triangular = op(
    "LinalgSolveTriangularBackward0",
    _triangle_solved,
    BY_HAND,
    INTERNAL,
    jvp(_triangle_tangent),
    joint("self", "B", by=_triangle_slopes),
)


def _cholesky_solved(self, input2, upper=False):
    for what, matrix in (("b", self), ("u", input2)):
        if matrix.ndim < 2:
            raise RuntimeError(
                f"{what} should have at least 2 dimensions, but has {matrix.ndim} dimensions "
                "instead"
            )
    check_pair("cholesky_solve", self, input2)
    check_kernel("cholesky_solve_cpu", self)
    broadcast_shape([self.shape[:-2], input2.shape[:-2]])
    turned = kernels.adjoint(input2)
    first, second = (turned, input2) if upper else (input2, turned)
    between = kernels.solve_triangular(first, self, False)
    return kernels.columns_first(kernels.solve_triangular(second, between, True))


def _cholesky_slopes(grad, self, input2, result, upper, needs):
    slope = w.cholesky_solve(grad, input2, upper)
    of_factor = None
    if needs[1]:
        common = slope @ mH(result)
        common = common + mH(common)
        of_factor = -(input2 @ common) if upper else -(common @ input2)
    return slope if needs[0] else None, of_factor


cholesky_solve__default = op(
    "CholeskySolveBackward0",
    _cholesky_solved,
    BY_HAND,
    INTERNAL,
    TRANSPOSED,
    joint("self", "input2", by=_cholesky_slopes),
)


def _cholesky_inverted(self, upper=False):
    check_square("cholesky_inverse", self)
    check_kernel("cholesky_inverse_out_cpu", self)
    zero = self.diagonal(0, -2, -1) == 0
    raise_for(
        "cholesky_inverse",
        "inv",
        np.where(zero.any(-1), zero.argmax(-1) + 1 if self.size else 0, 0),
    )
    unit = np.broadcast_to(np.eye(self.shape[-1], dtype=self.dtype), self.shape)
    return _cholesky_solved(unit, self, upper)


def _cholesky_inverse_slope(grad, self, result, upper):
    common = result @ (grad + mH(grad)) @ result
    return -(self @ common) if upper else -(common @ self)


def _cholesky_inverse_tangent(self_t, self, result, upper):
    product = mH(self_t) @ self if upper else self_t @ mH(self)
    return -(result @ (product + mH(product)) @ result)


cholesky_inverse__default = op(
    "CholeskyInverseBackward0",
    _cholesky_inverted,
    BY_HAND,
    INTERNAL,
    jvp(_cholesky_inverse_tangent),
    self=_cholesky_inverse_slope,
)


def _old_triangular(self, A, upper=True, transpose=False, unitriangular=False):
    for what, matrix in (("b", self), ("A", A)):
        if matrix.ndim < 2:
            raise RuntimeError(
                f"torch.triangular_solve: Expected {what} to have at least 2 dimensions, but it "
                f"has {matrix.ndim} dimensions instead"
            )
    check_pair("triangular_solve", self, A)
    check_kernel("triangular_solve_cpu", self)
    batch = broadcast_shape([self.shape[:-2], A.shape[:-2]])
    matrix = A.swapaxes(-1, -2) if transpose else A
    solution = kernels.solve_triangular(matrix, self, upper != transpose, unitriangular)
    copied = np.broadcast_to(A, (*batch, *A.shape[-2:]))
    return kernels.columns_first(solution), kernels.columns_first(copied)


def _old_triangular_slopes(grads, self, A, solution, upper, transpose, unitriangular, needs):
    grad, of_copy = grads
    slope = w.triangular_solve(grad, conjugate(A), upper, not transpose, unitriangular)[0]
    of_a = None
    if needs[1]:
        of_a = -(slope @ mH(solution))
        of_a = kept(mT(of_a) if transpose else of_a, upper, unitriangular) + of_copy
    return slope if needs[0] else None, of_a


def _old_triangular_tangent(self_t, A_t, A, solution, upper, transpose, unitriangular):
    right = self_t
    if A_t is not None:
        part = kept(A_t, upper, unitriangular)
        turned = (mT(part) if transpose else part) @ solution
        right = -turned if right is None else right - turned
    return w.triangular_solve(right, A, upper, transpose, unitriangular)[0], A_t


triangular_solve__default = op(
    "TriangularSolveBackward0",
    _old_triangular,
    BY_HAND,
    INTERNAL,
    jvp(_old_triangular_tangent),
    outputs("solution", "cloned_coefficient"),
    joint("self", "A", by=_old_triangular_slopes),
)
family(globals())

# -- public functions ---------------------------------------------------------------------------


def solve_ex(A, B, *, left=True, check_errors=False, out=None):
    """The solution, and whether the matrix was singular."""
    found, _, _, info = _linalg_solve_ex(A, B, left)
    if check_errors:
        raise_for("torch.linalg.solve_ex", "solve", info)
    made = all_written("linalg_solve_ex", (found, info), out)
    return return_types.linalg_solve_ex(*made)


def solve(A, B, *, left=True, out=None):
    """X of A X = B; of X A = B if not `left`."""
    found, _, _, info = _linalg_solve_ex(A, B, left)
    raise_for("torch.linalg.solve", "solve", info)
    return written("linalg_solve", found, out)


def solve_triangular(A, B, *, upper=None, left=True, unitriangular=False, out=None):
    """The same for a triangular matrix; the other triangle is not read."""
    if upper is None:
        raise TypeError(
            'linalg_solve_triangular() missing 1 required positional arguments: "upper"'
        )
    if A.dtype is not B.dtype:
        kind = dtypes.promote_types(A.dtype, B.dtype)
        A, B = A.to(kind), B.to(kind)
    made = linalg_solve_triangular(A, B, upper, left, unitriangular)
    return written("linalg_solve_triangular", made, out, (B,))


@both
def cholesky_solve(input, L, upper=False, *, out=None):
    """X of A X = B, where A is L Lᴴ, or Uᴴ U."""
    return written("cholesky_solve", cholesky_solve__default(input, L, upper), out)


@both
def cholesky_inverse(input, upper=False, *, out=None):
    """The inverse of L Lᴴ, or of Uᴴ U."""
    return written("cholesky_inverse", cholesky_inverse__default(input, upper), out)


@both
def triangular_solve(input, A, upper=True, transpose=False, unitriangular=False, *, out=None):
    made = triangular_solve__default(input, A, upper, transpose, unitriangular)
    return return_types.triangular_solve(*all_written("triangular_solve", made, out))


FUNCTIONS["linalg.solve"] = solve
FUNCTIONS["linalg.solve_ex"] = solve_ex
FUNCTIONS["linalg.solve_triangular"] = solve_triangular
