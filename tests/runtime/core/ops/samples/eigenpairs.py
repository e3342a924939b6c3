"""Samples of a few eigenpairs of a matrix, whose vectors may point either way."""

from __future__ import annotations

from tests.runtime.core.ops.written import cases, faults

SQUARE, START = (9, 9), (9, 2)
A = "A = x @ x.mT + torch.eye(9, dtype=x.dtype)\n"
SQUARES = "\nE, U * U"
FEW = "tol=1e-11, niter=60"  # nearer, what is left of an error is chance, and NaN its tangent

cases(
    "lobpcg",
    [SQUARE, START],
    f"{A}E, U = torch.lobpcg(A, X=y.detach(), {FEW}){SQUARES}",
    f"{A}E, U = torch.lobpcg(A, 1, X=y.detach(), largest=False, {FEW}){SQUARES}",
    f"{A}E, U = torch.lobpcg(A, X=y.detach().clone(), method='basic', {FEW}){SQUARES}",
    f"{A}B = torch.stack([A, A * 2])\n"
    f"E, U = torch.lobpcg(B, X=torch.stack([y, y]).detach(), {FEW}){SQUARES}",
    dtypes=(),
    tolerance=1e5,
    strided=False,
)
cases(
    "lobpcg",
    [SQUARE, START],
    f"{A}E, U = torch.lobpcg(A, X=y, B=torch.eye(9, dtype=x.dtype) * 2, {FEW}){SQUARES}",
    f"{A}E, U = torch.lobpcg(A, X=y, niter=2){SQUARES}",
    f"{A}E, U = torch.lobpcg(A, X=y, iK=torch.diag(1 / A.diag()), {FEW}){SQUARES}",
    f"{A}seen = []\n"
    "torch.lobpcg(A, X=y, niter=3, tracker=lambda at: seen.extend([*at.E, at.tvars['rerr'][0]]))\n"
    "seen",
    dtypes=(),
    tolerance=1e5,
    strided=False,
    grad=False,
)
faults(
    "lobpcg",
    [SQUARE, START],
    "torch.lobpcg(y)",
    "torch.lobpcg(x, B=torch.eye(8))",
    "torch.lobpcg(x, 4)",
    "torch.lobpcg(x, X=y[:8])",
    "torch.lobpcg(x.long(), X=y)",
    "torch.lobpcg(x.half())",
    "torch.lobpcg(x, B=torch.eye(9, dtype=x.dtype))[0].sum().backward()",
    "torch.lobpcg([1, 2])",
    "torch.lobpcg(x, wrong=1)",
)
