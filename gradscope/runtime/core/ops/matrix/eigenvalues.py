"""Eigenvalues and eigenvectors: eigh, eig."""

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
from gradscope.runtime.core.dtypes import dtypes
from gradscope.runtime.core.kernels.linalg import linalg as kernels
from gradscope.runtime.core.ops.in_formulas import beside, is_complex
from gradscope.runtime.core.ops.matrix.matrices import (
    all_written,
    check_kernel,
    check_square,
    constant,
    depends_on_phase,
    is_nothing,
    line_of,
    mH,
    raise_for,
    real_part,
)
from gradscope.runtime.core.rows.offered import FUNCTIONS


def _eigh(A, UPLO, compute_v):
    check_square("linalg.eigh", A)
    if UPLO.upper() not in {"L", "U"}:
        raise RuntimeError(f"Expected UPLO argument to be 'L' or 'U', but got {UPLO}")
    check_kernel("linalg_eigh_cpu", A)
    finite = np.isfinite(A).all((-1, -2))
    try:
        if not finite.all():
            raise np.linalg.LinAlgError
        if not compute_v:
            return np.linalg.eigvalsh(A, UPLO.upper()), np.zeros(0, A.dtype)
        values, vectors = np.linalg.eigh(A, UPLO.upper())
    except np.linalg.LinAlgError:
        raise_for("linalg.eigh", "eigen", np.where(finite, 0, A.shape[-1] - 1))
        raise
    return values, kernels.columns_first(vectors)


def _eigh_slope(grads, eigenvalues, eigenvectors):
    of_values, of_vectors = grads
    if is_nothing(of_vectors):
        return (eigenvectors * w.unsqueeze(of_values, -2)) @ mH(eigenvectors)
    turned = mH(eigenvectors) @ of_vectors
    if is_complex(turned):
        _check_phase("linalg_eigh_backward", line_of(turned))
    gaps = w.unsqueeze(eigenvalues, -2) - w.unsqueeze(eigenvalues, -1)
    unit = constant(np.eye(eigenvalues.shape[-1]), eigenvalues)
    turned = (turned - mH(turned)) * beside(turned, 0.5)
    inner = turned * (1 - unit) / (gaps + unit) + w.diag_embed(of_values)
    return eigenvectors @ inner @ mH(eigenvectors)


def _check_phase(name, line):
    if depends_on_phase(line):
        raise RuntimeError(
            f"{name}: The eigenvectors in the complex case are specified up to multiplication by "
            "e^{i phi}. The specified loss function depends on this quantity, so it is "
            "ill-defined."
        )


_linalg_eigh = op(
    "LinalgEighBackward0",
    _eigh,
    BY_HAND,
    INTERNAL,
    TRANSPOSED,
    outputs("eigenvalues", "eigenvectors"),
    A=_eigh_slope,
)


def _eig(self):
    check_square("linalg.eig", self)
    if self.dtype.kind not in "fcV":
        dtypes.from_numpy(self.dtype).to_complex()
    check_kernel("linalg_eig_out_cpu", self)
    if not np.isfinite(self).all():
        raise RuntimeError("torch.linalg.eig: input tensor should not contain infs or NaNs.")
    try:
        values, vectors = np.linalg.eig(self)
    except np.linalg.LinAlgError:
        raise_for("linalg.eig", "eigen", np.full(self.shape[:-2], self.shape[-1]))
        raise
    kind = dtypes.from_numpy(self.dtype).to_complex().numpy
    return values.astype(kind), kernels.columns_first(vectors.astype(kind))


def _eig_slope(grads, eigenvalues, eigenvectors):
    of_values, of_vectors = grads
    turned_back = mH(eigenvectors)
    if is_nothing(of_vectors):
        right = w.unsqueeze(of_values, -1) * turned_back
        return w._linalg_solve_ex(turned_back, right, True)[0]
    turned = turned_back @ of_vectors
    line = line_of(turned)
    _check_phase("linalg_eig_backward", line)
    scaled = eigenvectors * w.unsqueeze(real_part(line), -2)
    inner = turned - turned_back @ scaled
    gaps = (w.unsqueeze(eigenvalues, -2) - w.unsqueeze(eigenvalues, -1)).conj()
    unit = constant(np.eye(eigenvalues.shape[-1]), eigenvalues)
    inner = inner * (1 - unit) / (gaps + unit) + w.diag_embed(of_values)
    return w._linalg_solve_ex(turned_back, inner @ turned_back, True)[0]


linalg_eig__default = op(
    "LinalgEigBackward0",
    _eig,
    BY_HAND,
    INTERNAL,
    TRANSPOSED,
    outputs("eigenvalues", "eigenvectors"),
    self=_eig_slope,
)
family(globals())


def _is_differentiated(A):
    return A.requires_grad or fw_grad(A) is not None


def eigh(A, UPLO="L", *, out=None):
    """Eigenpairs of symmetric or Hermitian matrices, ascending. One triangle is read."""
    return return_types.linalg_eigh(*all_written("linalg_eigh", _linalg_eigh(A, UPLO, True), out))


def eigvalsh(A, UPLO="L", *, out=None):
    made = _linalg_eigh(A, UPLO, _is_differentiated(A))[0]
    return written("linalg_eigvalsh", made, out)


def eig(A, *, out=None):
    """Eigenvalues and vectors of any square matrix; complex, in no order."""
    return return_types.linalg_eig(*all_written("linalg_eig", linalg_eig__default(A), out))


def eigvals(A, *, out=None):
    if not _is_differentiated(A):
        check_square("linalg.eigvals", A._array)
    return written("linalg_eigvals", linalg_eig__default(A)[0], out)


for _made in (eigh, eigvalsh, eig, eigvals):
    FUNCTIONS[f"linalg.{_made.__name__}"] = _made
