"""Orthonormal columns, among themselves and to others, with respect to B."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gradscope.runtime as torch
from gradscope.runtime import _linalg_utils as linalg

if TYPE_CHECKING:
    from gradscope.runtime._lobpcg.worker import LOBPCG


def root_of_inverse(B: Any, S: Any) -> Any:
    """Upper triangular C such that the columns of S C are B-orthonormal."""
    SBS = linalg.qform(B, S)
    scale = SBS.diagonal(0, -2, -1) ** -0.5
    root = torch.linalg.cholesky((SBS * scale) * scale.reshape(-1, 1), upper=True)
    return torch.linalg.solve_triangular(root, scale.diag_embed(), upper=True, left=False)


def orthonormal(B: Any, U: Any, tau: float, *, drop: bool) -> Any:
    """A B-orthonormal basis of the columns of U, by the eigenvectors of Uᵀ B U.

    Columns that add less than tau of the largest are dropped, or treated as if they added that
    much.
    """
    U = _without_zeros(B, U)
    if U.numel() == 0:
        return U
    UBU = linalg.qform(B, U)
    scale = (UBU.diagonal(0, -2, -1) ** -0.5).reshape(-1, 1)
    values, Z = linalg.symeig((UBU * scale) * scale.mT)
    least = tau * abs(values).max()
    if drop:
        kept = torch.where(values > least)[0]
        values, Z, scale = values[kept], Z[:, kept], scale[kept]
    else:
        values[torch.where(values < least)[0]] = least
    return torch.matmul(U * scale.mT, Z * values**-0.5)


def _without_zeros(B: Any, U: Any) -> Any:
    """U without zero columns, which have no direction."""
    if U.numel() == 0:
        return U
    lengths = linalg.qform(B, U).diagonal(0, -2, -1)
    kept = torch.where(abs(lengths) != 0.0)[0]
    return U if len(kept) == len(lengths) else U[:, kept]


def orthonormal_beside(worker: LOBPCG, U: Any, V: Any) -> Any:
    """A B-orthonormal basis of the columns of U, B-orthogonal to V.

    Empty, if V spans all of U. Rounding makes one pass inexact, so there are several.
    """
    _forget_errors(worker)
    ivars, fvars = worker.ivars, worker.fvars
    size_BV = torch.norm(linalg.matmul(worker.B, V))
    VBU = torch.matmul(V.mT, linalg.matmul(worker.B, U))
    i = j = 0
    for i in range(worker.iparams["ortho_i_max"]):
        U, j = _among_themselves(worker, U - torch.matmul(V, VBU), i)
        if U.numel() == 0:
            break
        VBU = torch.matmul(V.mT, linalg.matmul(worker.B, U))
        error = float(torch.norm(VBU)) * float(size_BV * torch.norm(U)) ** -1
        fvars[f"ortho_VBU_rerr[{i}]"] = error
        if error < worker.fparams["ortho_tol"]:
            break
        if worker.iparams["m"] < U.shape[-1] + V.shape[-1]:
            _refuse_overdetermined(worker.B, U, V)
    ivars["ortho_i"], ivars["ortho_j"] = i, j
    return U


def _among_themselves(worker: LOBPCG, U: Any, i: int) -> tuple[Any, int]:
    """U with B-orthonormal columns, and the number of passes; or no columns."""
    fparams, drop = worker.fparams, worker.bparams["ortho_use_drop"]
    tau = fparams["ortho_tol_drop"] if drop else fparams["ortho_tol_replace"]
    j = 0
    for j in range(worker.iparams["ortho_j_max"]):
        U = worker._get_svqb(U, drop and j > 0, tau)
        tau = fparams["ortho_tol_replace"]
        if U.numel() == 0:
            break
        BU = linalg.matmul(worker.B, U)
        UBU = torch.matmul(U.mT, BU)
        wrong = UBU - torch.eye(UBU.shape[-1], device=UBU.device, dtype=UBU.dtype)
        error = float(torch.norm(wrong)) * float(torch.norm(BU) * torch.norm(U)) ** -1
        worker.fvars[f"ortho_UBUmI_rerr[{i}, {j}]"] = error
        if error < fparams["ortho_tol"]:
            break
    return U, j


def _forget_errors(worker: LOBPCG) -> None:
    for name in list(worker.fvars):
        if name.startswith("ortho_") and name.endswith("_rerr"):
            del worker.fvars[name]
    for name in ("ortho_i", "ortho_j"):
        worker.ivars.pop(name, None)


def _refuse_overdetermined(B: Any, U: Any, V: Any) -> None:
    if B is None:
        raise AssertionError("B must not be None")
    raise ValueError(
        "Overdetermined shape of U:"
        f" #B-cols(={B.shape[-1]}) >= #U-cols(={U.shape[-1]}) + #V-cols(={V.shape[-1]}) must hold"
    )
