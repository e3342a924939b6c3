"""The arguments of `lobpcg`, and one iteration for each matrix of a batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gradscope.runtime as torch
from gradscope.runtime import _linalg_utils as linalg
from gradscope.runtime._lobpcg.worker import LOBPCG


@dataclass(frozen=True, slots=True)
class Options:
    """Arguments of `lobpcg` besides A, k and B, in its order."""

    X: Any
    n: int | None
    preconditioner: Any
    niter: int | None
    tol: float | None
    largest: bool | None
    method: str | None
    tracker: Any
    ortho_iparams: dict[str, int] | None
    ortho_fparams: dict[str, float] | None
    ortho_bparams: dict[str, bool] | None


@dataclass(frozen=True, slots=True)
class Parameters:
    """The three dicts of numbers that an iteration and its tracker read."""

    iparams: dict[str, int]
    fparams: dict[str, float]
    bparams: dict[str, bool]


EPSILON = {torch.float32: 1.2e-07, torch.float64: 2.23e-16}


def solve(A: Any, k: int | None, B: Any, options: Options) -> tuple[Any, Any]:
    """Eigenvalues and their vectors."""
    if A.shape[-2] != A.shape[-1]:
        raise AssertionError(f"A must be square, got shape {A.shape}")
    if B is not None and A.shape != B.shape:
        raise AssertionError(f"A and B must have same shape, got {A.shape} vs {B.shape}")
    tol = EPSILON[linalg.get_floating_dtype(A)] ** 0.5 if options.tol is None else options.tol
    parameters = _parameters(A.shape[-1], k, tol, options)
    if A.dim() > 2:
        return _batch(A, B, parameters, options)
    iparams = parameters.iparams
    shape = (iparams["m"], iparams["n"])
    X = _start(A, shape) if options.X is None else options.X
    if X.shape != shape:
        raise AssertionError(f"X shape mismatch: got {X.shape}, expected {shape}")
    return _one(A, B, X, parameters, options)


def _parameters(m: int, k: int | None, tol: float, options: Options) -> Parameters:
    columns = None if options.X is None else options.X.shape[-1]
    k = (columns or 1) if k is None else k
    n = columns if columns is not None else k if options.n is None else options.n
    if m < 3 * n:
        raise ValueError(
            f"LOBPCG algorithm is not applicable when the number of A rows (={m})"
            f" is smaller than 3 x the number of requested eigenpairs (={n})"
        )
    niter = 1000 if options.niter is None else options.niter
    largest = True if options.largest is None else options.largest
    made = Parameters({"m": m, "n": n, "k": k, "niter": niter}, {"tol": tol}, {"largest": largest})
    if options.method in (None, "ortho"):
        made.iparams.update(options.ortho_iparams or {})
        made.fparams.update(options.ortho_fparams or {})
        made.bparams.update(options.ortho_bparams or {})
        for name in ("ortho_i_max", "ortho_j_max"):
            made.iparams.setdefault(name, 3)
        for name in ("ortho_tol", "ortho_tol_drop", "ortho_tol_replace"):
            made.fparams.setdefault(name, tol)
        made.bparams.setdefault("ortho_use_drop", False)
    return made


def _start(A: Any, shape: tuple[int, int]) -> Any:
    return torch.randn(shape, dtype=linalg.get_floating_dtype(A), device=A.device)


def _one(A: Any, B: Any, X: Any, parameters: Parameters, options: Options) -> tuple[Any, Any]:
    method = "ortho" if options.method is None else options.method
    iK, iparams, fparams = options.preconditioner, parameters.iparams, parameters.fparams
    worker = LOBPCG(A, B, X, iK, iparams, fparams, parameters.bparams, method, options.tracker)
    worker.run()
    k = iparams["k"]
    return worker.E[:k], worker.X[:, :k]


def _batch(A: Any, B: Any, parameters: Parameters, options: Options) -> tuple[Any, Any]:
    iparams = parameters.iparams
    m, n, k = iparams["m"], iparams["n"], iparams["k"]
    batch = A.shape[:-2]
    count = batch.numel()
    flat_A = A.reshape(count, m, m)
    flat_B = None if B is None else B.reshape(count, m, m)
    flat_X = None if options.X is None else options.X.reshape(count, *options.X.shape[-2:])
    dtype = linalg.get_floating_dtype(A)
    values = torch.empty((count, k), dtype=dtype, device=A.device)
    vectors = torch.empty((count, m, k), dtype=dtype, device=A.device)
    for i in range(count):
        X = _start(A, (m, n)) if flat_X is None else flat_X[i]
        if X.shape != (m, n):
            raise AssertionError(f"X_ shape mismatch: got {X.shape}, expected {(m, n)}")
        iparams["batch_index"] = i
        b = None if flat_B is None else flat_B[i]
        values[i], vectors[i] = _one(flat_A[i], b, X, parameters, options)
    return values.reshape(*batch, k), vectors.reshape(*batch, m, k)
