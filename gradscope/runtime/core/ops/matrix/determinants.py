"""Determinants: det, slogdet, logdet."""

from __future__ import annotations

import math

import numpy as np

from gradscope.runtime.core.calls import return_types
from gradscope.runtime.core.calls.declare import (
    BY_HAND,
    INTERNAL,
    TRANSPOSED,
    family,
    op,
    outputs,
    w,
)
from gradscope.runtime.core.calls.extra_arguments.out import written
from gradscope.runtime.core.kernels.linalg import linalg as kernels
from gradscope.runtime.core.ops.in_formulas import is_complex, on_arrays, zeros_like
from gradscope.runtime.core.ops.matrix.matrices import (
    all_written,
    check_floating,
    check_kernel,
    check_precise,
    check_square,
    conjugate,
    constant,
    contiguous,
    mH,
)
from gradscope.runtime.core.rows.offered import FUNCTIONS, both


def by_transpose(A):
    """Whether LAPACK receives Aᵀ, as it sees a row-major matrix."""
    return contiguous(A) and A.dtype.kind != "c"


def lu_of(A):
    return kernels.lu(A.swapaxes(-1, -2) if by_transpose(A) else A)


def _sign_of(pivots):
    """The sign of the swaps: -1 for an odd number."""
    moved = pivots != np.arange(1, pivots.shape[-1] + 1)
    return 1 - 2 * (moved.sum(-1) % 2)


def _det(A):
    check_square("linalg.det", A)
    check_floating("linalg.det", A)
    check_kernel("lu_cpu", A)
    factors, pivots, _ = lu_of(A)
    line = factors.diagonal(0, -2, -1)
    made = np.asarray(line.prod(-1) * _sign_of(pivots)).astype(A.dtype)
    return made, factors, pivots


def _det_slope(grads, A, LU, pivots, result):
    """det(A) A⁻ᴴ; for a singular A, that of the nearest matrix that is not."""
    grad = grads[0]
    if on_arrays(grad):
        return _det_slope_of_arrays(grad, A, LU, pivots)
    if not A.numel():
        return zeros_like(A)
    if A.shape[-1] == 1:
        return w.unsqueeze(w.unsqueeze(grad, -1), -1).expand(A.shape)
    if (result._array == 0).any():
        return w.unsqueeze(w.unsqueeze(grad, -1), -1) * _cofactors(A)
    return w._linalg_solve_ex(mH(A), scaled_unit(grad * conjugate(result), A), True)[0]


def scaled_unit(number, A):
    """The identity times a number for each matrix."""
    if on_arrays(A):
        return np.asarray(number)[..., None, None] * np.eye(A.shape[-1], dtype=A.dtype)
    return w.diag_embed(w.unsqueeze(number, -1).expand(A.shape[:-1]))


def _det_slope_of_arrays(grad, A, LU, pivots):
    line = LU.diagonal(0, -2, -1)
    eps = np.finfo(LU.dtype).eps
    safe = np.where(line == 0, eps, line).astype(LU.dtype)
    factors = LU.copy()
    place = np.arange(LU.shape[-1])
    factors[..., place, place] = safe
    det = np.asarray(safe.prod(-1) * _sign_of(pivots)).astype(LU.dtype)
    scaled = scaled_unit(grad * det.conj(), LU)
    return kernels.lu_solve(factors, pivots, scaled, not by_transpose(A))


def _cofactors(A):
    """conj(d det / dA), in a form that is differentiable for a singular A."""
    u, s, vh = FUNCTIONS["linalg.svd"](A)
    size = s.shape[-1]
    mask = constant(1 - np.eye(size), s)
    others = (s[..., None, :] * mask + (1 - mask)).prod(-1)
    turn = (_linalg_det(u)[0] * _linalg_det(vh)[0]).conj()
    return turn[..., None, None] * ((u * others[..., None, :]) @ vh)


_linalg_det = op(
    "LinalgDetBackward0",
    _det,
    BY_HAND,
    INTERNAL,
    TRANSPOSED,
    outputs("result", "LU", "pivots", without=("LU", "pivots")),
    A=_det_slope,
)


def _slogdet(A, name):
    check_square(name, A)
    check_precise(name, A)
    factors, pivots, _ = lu_of(A)
    line = factors.diagonal(0, -2, -1)
    size = np.abs(line)
    with np.errstate(divide="ignore"):
        logarithm = np.asarray(np.log(size).sum(-1))
    turns = np.where(size == 0, 0, line / np.where(size == 0, 1, size))
    sign = np.asarray(turns.prod(-1) * _sign_of(pivots)).astype(A.dtype)
    return sign, logarithm, factors, pivots


def _slogdet_slope(grads, A, LU, pivots, sign):
    of_sign, of_log = grads[0], grads[1]
    if is_complex(A):
        of_log = of_log + 1j * (of_sign * sign.conj()).imag
    scaled = scaled_unit(of_log, A)
    if not on_arrays(scaled):
        return w._linalg_solve_ex(mH(A), scaled, True)[0]
    scaled = scaled.astype(LU.dtype, copy=False)
    return kernels.lu_solve(LU, pivots, scaled, not by_transpose(A))


_linalg_slogdet = op(
    "LinalgSlogdetBackward0",
    _slogdet,
    BY_HAND,
    INTERNAL,
    TRANSPOSED,
    outputs("sign", "logabsdet", "LU", "pivots", without=("LU", "pivots")),
    A=_slogdet_slope,
)
family(globals())


def linalg_det(A, *, out=None):
    return written("linalg_det", _linalg_det(A)[0], out)


@both
def det(input):
    """The determinant of each matrix."""
    return _linalg_det(input)[0]


def linalg_slogdet(A, *, out=None):
    """The determinant as its sign and the logarithm of its absolute value."""
    made = _linalg_slogdet(A, "linalg.slogdet")[:2]
    return return_types.linalg_slogdet(*all_written("linalg_slogdet", made, out))


@both
def slogdet(input, *, out=None):
    made = _linalg_slogdet(input, "linalg.slogdet")[:2]
    return return_types.slogdet(*all_written("slogdet", made, out))


@both
def logdet(input):
    """The logarithm of the determinant; NaN where that is negative."""
    sign, size = _linalg_slogdet(input, "logdet")[:2]
    if is_complex(input):
        return sign.log() + size
    return FUNCTIONS["where"](sign == -1.0, math.nan, size)


FUNCTIONS["linalg.det"] = linalg_det
FUNCTIONS["linalg.slogdet"] = linalg_slogdet
