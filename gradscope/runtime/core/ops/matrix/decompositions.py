"""Factorizations: cholesky, qr, svd."""

from __future__ import annotations

import numpy as np

from gradscope.runtime.core.autograd.forward.forward_grad import fw_grad
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
from gradscope.runtime.core.ops.in_formulas import beside, is_complex
from gradscope.runtime.core.ops.matrix.lu import side_by_side
from gradscope.runtime.core.ops.matrix.matrices import (
    LinAlgError,
    all_written,
    check_floating,
    check_kernel,
    check_matrix,
    check_square,
    constant,
    depends_on_phase,
    is_nothing,
    line_of,
    mH,
    raise_for,
)
from gradscope.runtime.core.rows.offered import FUNCTIONS, both

# -- cholesky ------------------------------------------------------------------------------------


def _cholesky(A, upper, name):
    check_square(name, A)
    if name != "cholesky":
        check_floating(name, A)
    check_kernel("cholesky_cpu", A)
    if upper:
        made, info = kernels.cholesky(kernels.adjoint(A))
        return kernels.columns_first(kernels.adjoint(made)), info
    return kernels.cholesky(A)


def _cholesky_slope(grad, factor, upper):
    lower, grad = (mH(factor), mH(grad)) if upper else (factor, grad)
    middle = mH(lower) @ grad
    middle = w.tril(middle, 0) + mH(w.tril(middle, -1))
    middle = w.linalg_solve_triangular(mH(lower), middle, True, True, False)
    return w.linalg_solve_triangular(lower, middle, False, False, False) * beside(middle, 0.5)


linalg_cholesky_ex__default = op(
    "LinalgCholeskyExBackward0",
    _cholesky,
    BY_HAND,
    INTERNAL,
    TRANSPOSED,
    outputs("L", "info", without=("info",)),
    A=lambda grads, L, upper: _cholesky_slope(grads[0], L, upper),
)


def _old_cholesky(self, upper=False):
    made, info = _cholesky(self, upper, "cholesky")
    raise_for("cholesky", "cholesky", info)
    return made


cholesky__default = op(
    "CholeskyBackward0",
    _old_cholesky,
    BY_HAND,
    INTERNAL,
    TRANSPOSED,
    self=lambda grad, result, upper: _cholesky_slope(grad, result, upper),
)

# -- qr ------------------------------------------------------------------------------------------


def _qr(A, mode="reduced"):
    check_matrix("linalg.qr", A)
    check_floating("linalg.qr", A)
    if mode not in {"reduced", "complete", "r"}:
        raise RuntimeError(
            f"qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), 'r', "
            "or 'complete'"
        )
    check_kernel("geqrf_cpu", A)
    if mode == "r":
        return np.zeros(0, A.dtype), kernels.columns_first(np.asarray(np.linalg.qr(A, "r")))
    q, r = np.linalg.qr(A, mode)
    return kernels.columns_first(q), kernels.columns_first(r)


def _both_sides(x):
    """X + Xᴴ with the diagonal counted once, and real."""
    made = x + mH(x)
    size = x.shape[-1]
    return made * constant(1 - np.eye(size) / 2, made)


def _qr_slope(grads, Q, R, mode):
    if mode == "r":
        raise RuntimeError(
            "The derivative of linalg.qr depends on Q, which is not computed when mode='r'. Please "
            "use linalg.qr(A, mode='reduced') if you are going to differentiate through linalg.qr."
        )
    of_q, of_r = grads
    rows, columns = Q.shape[-2], R.shape[-1]
    if mode == "complete" and rows > columns:
        raise RuntimeError(
            "The QR decomposition is not differentiable when mode='complete' and nrows > ncols."
        )
    if rows >= columns:
        return _tall_qr_slope(of_q, of_r, Q, R)
    rest = of_r[..., rows:]
    of_q = of_q + Q @ (R[..., rows:] @ mH(rest))
    first = _tall_qr_slope(of_q, of_r[..., :rows], Q, R[..., :rows])
    return side_by_side(first, Q @ rest, -1)


def _tall_qr_slope(of_q, of_r, Q, R):
    inner = _both_sides(w.triu(of_r @ mH(R) - mH(Q) @ of_q, 0))
    return w.linalg_solve_triangular(mH(R), of_q + Q @ inner, False, False, False)


linalg_qr__default = op(
    "LinalgQrBackward0", _qr, BY_HAND, INTERNAL, TRANSPOSED, outputs("Q", "R"), A=_qr_slope
)

# -- svd -----------------------------------------------------------------------------------------


def _svd(A, full_matrices, compute_uv, S_sym_argsize_minus_1):
    check_matrix("linalg.svd", A)
    check_floating("linalg.svd", A)
    check_kernel("linalg_svd_cpu", A)
    if not np.isfinite(A).all():
        _refuse_not_finite(A)
    if not compute_uv:
        nothing = np.zeros(0, A.dtype)
        return nothing, np.linalg.svd(A, compute_uv=False), nothing
    try:
        u, s, vh = np.linalg.svd(A, full_matrices)
    except np.linalg.LinAlgError:
        raise_for("linalg.svd", "svd", np.full(A.shape[:-2], min(A.shape[-2:])))
        raise
    return kernels.columns_first(u), s, kernels.columns_first(vh)


def _refuse_not_finite(A):
    if not np.isnan(A).any():
        finite = np.isfinite(A).all((-1, -2))
        raise_for("linalg.svd", "svd", np.where(finite, 0, min(A.shape[-2:]) - 1))
    place = np.flatnonzero(np.isnan(A).any((-1, -2)))
    which = f"(Batch element {place[0]}): " if A.ndim > 2 else ""
    raise LinAlgError(
        f"linalg.svd: {which}The algorithm failed to converge because the input matrix contained "
        "non-finite values."
    )


def skew(x):
    return x - mH(x)


def _svd_slope(grads, S, S_sym_argsize_minus_1, U, Vh, full_matrices):
    of_u, of_s, of_vh = grads
    count = S_sym_argsize_minus_1
    u, vh = U[..., :count], Vh[..., :count, :]
    if is_nothing(of_u) and is_nothing(of_vh):
        return (u * w.unsqueeze(of_s, -2)) @ vh
    of_u, of_vh = of_u[..., :count], of_vh[..., :count, :]
    turned_u, turned_v = mH(u) @ of_u, vh @ mH(of_vh)
    if is_complex(u) and depends_on_phase(line_of(turned_u) + line_of(turned_v)):
        raise RuntimeError(
            "svd_backward: The singular vectors in the complex case are specified up to "
            "multiplication by e^{i phi}. The specified loss function depends on this phase term, "
            "making it ill-defined."
        )
    inner = _svd_inner(skew(turned_u), of_s, skew(turned_v), S)
    made = u @ inner @ vh
    line = w.unsqueeze(S, -2)
    if U.shape[-2] > count:
        outer = of_u - u @ turned_u
        made = made + (outer / line) @ vh
    if Vh.shape[-1] > count:
        outer = of_vh - mH(turned_v) @ vh
        made = made + (u / line) @ outer
    return made


def _svd_inner(turned_u, of_s, turned_v, S):
    size = S.shape[-1]
    row, column = w.unsqueeze(S, -2), w.unsqueeze(S, -1)
    unit = constant(np.eye(size), S)
    gaps = (row - column) * (row + column) + unit
    made = ((turned_u / gaps) * row + column * (turned_v / gaps)) * (1 - unit)
    if is_complex(turned_u):
        made = made + w.diag_embed(line_of(turned_u) / (S * 2))
    return made + w.diag_embed(of_s)


_linalg_svd = op(
    "LinalgSvdBackward0",
    _svd,
    BY_HAND,
    INTERNAL,
    TRANSPOSED,
    outputs("U", "S", "Vh"),
    A=_svd_slope,
)
family(globals())

# -- public functions ---------------------------------------------------------------------------


def linalg_cholesky(A, *, upper=False, out=None):
    """L of A = L Lᴴ."""
    made, info = linalg_cholesky_ex__default(A, upper, "linalg.cholesky")
    raise_for("linalg.cholesky", "cholesky", info)
    return written("linalg_cholesky", made, out)


def cholesky_ex(A, *, upper=False, check_errors=False, out=None):
    """The same, and the number of the minor that is not positive, or 0."""
    made = linalg_cholesky_ex__default(A, upper, "linalg.cholesky")
    if check_errors:
        raise_for("linalg.cholesky_ex", "cholesky", made[1])
    return return_types.linalg_cholesky_ex(*all_written("linalg_cholesky_ex", made, out))


@both
def cholesky(input, upper=False, *, out=None):
    return written("cholesky", cholesky__default(input, upper), out)


def linalg_qr(A, mode="reduced", *, out=None):
    """Q with orthogonal columns, and upper triangular R."""
    return return_types.linalg_qr(*all_written("linalg_qr", linalg_qr__default(A, mode), out))


@both
def qr(input, some=True, *, out=None):
    made = linalg_qr__default(input, "reduced" if some else "complete")
    return return_types.qr(*all_written("qr", made, out))


def _decomposed(A, full_matrices, compute_uv=True):
    return _linalg_svd(A, full_matrices, compute_uv, min(A.shape[-2:], default=0))


def linalg_svd(A, full_matrices=True, *, driver=None, out=None):
    """U, the singular values in descending order, and Vᴴ."""
    _check_driver(driver)
    made = _decomposed(A, full_matrices)
    return return_types.linalg_svd(*all_written("linalg_svd", made, out))


def _check_driver(driver):
    if driver is not None:
        raise RuntimeError(
            "torch.linalg.svd: keyword argument `driver=` is only supported on CUDA inputs with "
            "cuSOLVER backend."
        )


def svdvals(A, *, driver=None, out=None):
    _check_driver(driver)
    wanted = A.requires_grad or fw_grad(A) is not None
    return written("linalg_svdvals", _decomposed(A, False, wanted)[1], out)


@both
def svd(input, some=True, compute_uv=True, *, out=None):
    """U, the singular values and V, not transposed."""
    if input.dim() < 2:
        raise RuntimeError(
            f"linalg.svd: input should have at least 2 dimensions, but has {input.dim()} "
            "dimensions instead"
        )
    if compute_uv:
        u, s, vh = _decomposed(input, not some)
        made = (u, s, mH(vh))
    else:
        rows, columns = input.shape[-2:]
        s = svdvals(input)
        made = (
            input.new_zeros((*input.shape[:-2], rows, rows)),
            s,
            input.new_zeros((*input.shape[:-2], columns, columns)),
        )
    return return_types.svd(*all_written("svd", made, out))


FUNCTIONS["linalg.cholesky"] = linalg_cholesky
FUNCTIONS["linalg.cholesky_ex"] = cholesky_ex
FUNCTIONS["linalg.qr"] = linalg_qr
FUNCTIONS["linalg.svd"] = linalg_svd
FUNCTIONS["linalg.svdvals"] = svdvals
