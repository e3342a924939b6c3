"""The inverse of a matrix, or of each of a batch."""

from __future__ import annotations

import numpy as np

from gradscope.runtime import dtypes
from gradscope.runtime.kernels.support import HALVES
from gradscope.runtime.op import INTERNAL, family, jvp, op, outputs, w
from gradscope.runtime.ops import FUNCTIONS, both


class LinAlgError(RuntimeError):
    """A matrix has not what was asked for: it is singular, say."""


LinAlgError.__module__, LinAlgError.__name__ = "torch._C", "_LinAlgError"


def _check_square(name, matrix):
    if matrix.ndim < 2:
        raise RuntimeError(f"{name}: The input tensor A must have at least 2 dimensions.")
    rows, columns = matrix.shape[-2:]
    if rows != columns:
        raise RuntimeError(
            f"{name}: A must be batches of square matrices, but they are {rows} by {columns} "
            "matrices"
        )
    kind = dtypes.from_numpy(matrix.dtype).scalar_name
    if matrix.dtype in HALVES:
        raise RuntimeError(f"{name}: Low precision dtypes not supported. Got {kind}")
    if matrix.dtype.kind not in "fc":
        raise RuntimeError(
            f"{name}: Expected a floating point or complex tensor as input. Got {kind}"
        )


def _inverse(A):
    """Column by column in memory, as LAPACK leaves it."""
    _check_square("linalg.inv", A)
    try:
        return np.linalg.inv(A.swapaxes(-1, -2)).swapaxes(-1, -2)
    except np.linalg.LinAlgError:
        raise LinAlgError(_singular(A)) from None


def _singular(batch):
    """Which matrix of a batch is singular, and where that showed when it was eliminated."""
    matrices = batch.reshape(-1, *batch.shape[-2:])
    for element, matrix in enumerate(matrices):
        place = _zero_on_diagonal(matrix.copy())
        if place:
            which = "" if batch.ndim == 2 else f"(Batch element {element}): "
            return (
                f"linalg.inv: {which}The diagonal element {place} is zero, the inversion could not "
                "be completed because the input matrix is singular."
            )
    return "linalg.inv: the input matrix is singular."


def _zero_on_diagonal(matrix):
    """The number of the first pivot that is zero, counted from 1; 0 if there is none."""
    for k in range(len(matrix)):
        pivot = k + int(np.argmax(np.abs(matrix[k:, k])))
        if matrix[pivot, k] == 0:
            return k + 1
        matrix[[k, pivot]] = matrix[[pivot, k]]
        matrix[k + 1 :, k:] -= matrix[k + 1 :, k : k + 1] / matrix[k, k] * matrix[k, k:]
    return 0


def _inverse_slope(grad, inverse):
    inner = grad @ w.transpose(inverse, -2, -1)
    return -(w.transpose(inverse, -2, -1) @ inner)


linalg_inv_ex = op(
    "LinalgInvExBackward0",
    _inverse,
    INTERNAL,
    outputs("inverse"),
    jvp(lambda A_t, inverse: -(inverse @ A_t @ inverse)),
    A=_inverse_slope,
)
family(globals())


@both
def inverse(input):
    """The matrix whose product with this one is the identity."""
    return linalg_inv_ex(input)


def inv(A):
    return linalg_inv_ex(A)


FUNCTIONS["linalg.inv"] = inv
