"""`torch.lobpcg`: a few eigenpairs of a large symmetric matrix, by preconditioned iteration."""

from __future__ import annotations

from typing import Any

import gradscope.runtime as torch
from gradscope.runtime._lobpcg.gradient import symeig_backward
from gradscope.runtime._lobpcg.solve import Options, solve
from gradscope.runtime._lobpcg.worker import LOBPCG as LOBPCG
from gradscope.runtime.autograd.function import Function
from gradscope.runtime.overrides import handle_torch_function, has_torch_function

__all__ = ["lobpcg"]


class LOBPCGAutogradFunction(Function):
    """The iteration as one node: its gradient follows from the result, not from the steps."""

    @staticmethod
    def forward(ctx: Any, A: Any, k: Any, B: Any, *rest: Any) -> tuple[Any, Any]:
        A = A.contiguous()
        B = B if B is None else B.contiguous()
        options = Options(*rest)
        values, vectors = solve(A, k, B, options)
        ctx.save_for_backward(A, B, values, vectors)
        ctx.largest = options.largest
        return values, vectors

    @staticmethod
    def backward(ctx: Any, grad_values: Any, grad_vectors: Any) -> Any:
        A, B, values, vectors = ctx.saved_tensors
        if A.is_complex() or (B is not None and B.is_complex()):
            raise ValueError(
                "lobpcg.backward does not support complex input yet. "
                "Note that lobpcg.forward does though."
            )
        if B is not None:
            raise ValueError("lobpcg.backward does not support backward with B != I yet.")
        largest = True if ctx.largest is None else ctx.largest
        grad = symeig_backward(grad_values, grad_vectors, A, values, vectors, largest)
        return (grad, *[None] * 13)


def lobpcg(
    A: Any,
    k: int | None = None,
    B: Any = None,
    X: Any = None,
    n: int | None = None,
    iK: Any = None,
    niter: int | None = None,
    tol: float | None = None,
    largest: bool | None = None,
    method: str | None = None,
    tracker: Any = None,
    ortho_iparams: dict[str, int] | None = None,
    ortho_fparams: dict[str, float] | None = None,
    ortho_bparams: dict[str, bool] | None = None,
) -> tuple[Any, Any]:
    """The k largest (or smallest) eigenvalues of A x = λ B x, and their vectors.

    X is the start (random if not given, with n columns), iK a preconditioner. It stops after niter
    steps, or when residuals are below tol. `method` is "ortho", or "basic", which is faster but
    less stable. `tracker` is called with the iterating `LOBPCG` after each step.
    """
    given = {
        "k": k, "B": B, "X": X, "n": n, "iK": iK, "niter": niter, "tol": tol, "largest": largest,
        "method": method, "tracker": tracker, "ortho_iparams": ortho_iparams,
        "ortho_fparams": ortho_fparams, "ortho_bparams": ortho_bparams,
    }  # fmt: skip
    tensors = (A, B, X, iK)
    plain = {torch.Tensor, type(None)}
    if not plain.issuperset(map(type, tensors)) and has_torch_function(tensors):
        return handle_torch_function(lobpcg, tensors, A, **given)
    options = Options(*[given[name] for name in given if name not in ("k", "B")])
    if A.requires_grad or (B is not None and B.requires_grad):
        A = (A + A.mT) / 2  # so that a step along the gradient keeps it symmetric
        B = B if B is None else (B + B.mT) / 2
        rest = list(given.values())[2:]
        return LOBPCGAutogradFunction.apply(A, k, B, *rest)
    return solve(A, k, B, options)
