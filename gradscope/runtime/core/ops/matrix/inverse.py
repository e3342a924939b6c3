"""The inverse of a matrix, and powers of it."""

from __future__ import annotations

import numpy as np

from gradscope.runtime.core.calls import return_types
from gradscope.runtime.core.calls.declare import BY_HAND, INTERNAL, family, jvp, op, outputs
from gradscope.runtime.core.calls.extra_arguments.out import written
from gradscope.runtime.core.dtypes.memory_formats import contiguous_format
from gradscope.runtime.core.kernels.linalg import linalg as kernels
from gradscope.runtime.core.ops.matrix.matrices import (
    all_written,
    check_precise,
    check_square,
    mH,
    raise_for,
)
from gradscope.runtime.core.rows.offered import FUNCTIONS, METHODS, both
from gradscope.runtime.core.tensors.dims import wrapped
from gradscope.runtime.core.tensors.making import factories


def _inverse(A, name):
    """In column-major order, as LAPACK returns it."""
    check_square(name, A)
    check_precise(name, A)
    try:
        made = np.linalg.inv(A.swapaxes(-1, -2)).swapaxes(-1, -2)
    except np.linalg.LinAlgError:
        factors, pivots, info = kernels.lu(A)
        unit = np.broadcast_to(np.eye(A.shape[-1], dtype=A.dtype), A.shape)
        return kernels.columns_first(kernels.lu_solve(factors, pivots, unit)), info
    return made, np.zeros(A.shape[:-2], np.int32)


def _inverse_slope(grads, inverse):
    return -(mH(inverse) @ (grads[0] @ mH(inverse)))


linalg_inv_ex__default = op(
    "LinalgInvExBackward0",
    _inverse,
    INTERNAL,
    BY_HAND,
    outputs("inverse", "info", without=("info",)),
    jvp(lambda A_t, inverse: (-(inverse @ A_t @ inverse), None)),
    A=_inverse_slope,
)
family(globals())


def _inverted(name, A, out=None):
    made, info = linalg_inv_ex__default(A, name)
    raise_for(name, "inv", info)
    return written(name.replace(".", "_"), made, out)


def inv(A, *, out=None):
    return _inverted("linalg.inv", A, out)


def inv_ex(A, *, check_errors=False, out=None):
    """The inverse, and the number of the zero pivot, or 0."""
    made = linalg_inv_ex__default(A, "linalg.inv")
    if check_errors:
        raise_for("linalg.inv_ex", "inv", made[1])
    return return_types.linalg_inv_ex(*all_written("linalg_inv_ex", made, out))


@both
def inverse(input, *, out=None):
    """The matrix whose product with this one is the identity."""
    return _inverted("linalg.inv", input, out)


FUNCTIONS["linalg.inv"] = inv
FUNCTIONS["linalg.inv_ex"] = inv_ex


def matrix_power(A, n, *, out=None):
    """The matrix to the power n; of the inverse for negative n."""
    if not isinstance(n, int):
        raise TypeError(
            f"linalg_matrix_power(): argument 'n' (position 2) must be int, not {type(n).__name__}"
        )
    check_square("linalg.matrix_power", A._array)
    return written("linalg_matrix_power", _power(A, n), out)


def _power(A, n):
    if n == 0:
        unit = factories.new_leaf(np.eye(A.shape[-1], dtype=A._array.dtype))
        return A.clone(memory_format=contiguous_format).copy_(unit)
    if n == 1:
        return A.clone(memory_format=contiguous_format)
    if n < 0:
        A, n = inv(A), -n
    if n == 1:
        return A
    if n == 2:
        return A @ A
    if n == 3:
        return (A @ A) @ A
    square, made = None, None
    while n > 0:
        square = A if square is None else square @ square
        if n % 2:
            made = square if made is None else made @ square
        n //= 2
    return made


def _old_power(input, n, *, out=None):
    return matrix_power(input, n, out=out)


FUNCTIONS["linalg.matrix_power"] = matrix_power
FUNCTIONS["matrix_power"] = METHODS["matrix_power"] = _old_power


def tensorinv(A, ind=2, *, out=None):
    """The inverse of a tensor as a matrix: its first `ind` dims are the rows."""
    if ind <= 0:
        raise RuntimeError(f"Expected a strictly positive integer for 'ind', but got {ind}")
    ahead, behind = tuple(A.shape[:ind]), tuple(A.shape[ind:])
    rows, columns = int(np.prod(ahead)), int(np.prod(behind))
    if rows != columns:
        raise RuntimeError(
            "Expected self to satisfy the requirement prod(self.shape[ind:]) == "
            f"prod(self.shape[:ind]), but got {columns} != {rows}"
        )
    made = _inverted("linalg.inv", A.reshape(columns, rows)).reshape(*behind, *ahead)
    return written("linalg_tensorinv", made, out)


def tensorsolve(A, B, dims=None, *, out=None):
    """X for which the tensordot of A and X is B."""
    if dims is not None:
        order = [wrapped(d, A.dim()) for d in dims]
        A = A.permute(*[d for d in range(A.dim()) if d not in order], *order)
    behind = tuple(A.shape[B.dim() :])
    rows, columns = B.numel(), int(np.prod(behind))
    if rows != columns:
        raise RuntimeError(
            "Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == "
            f"prod(self.shape[:other.ndim]), but got {columns} != {rows}"
        )
    found = FUNCTIONS["linalg.solve"](A.reshape(rows, rows), B.flatten())
    return written("linalg_tensorsolve", found.reshape(behind), out)


FUNCTIONS["linalg.tensorinv"] = tensorinv
FUNCTIONS["linalg.tensorsolve"] = tensorsolve
