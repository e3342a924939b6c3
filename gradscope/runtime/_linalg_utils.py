"""`torch._linalg_utils`: products and decompositions; None stands for the identity."""

from __future__ import annotations

from typing import Any

import gradscope.runtime as torch
from gradscope.runtime.core.errors import missing


def is_sparse(A: Any) -> bool:
    """Returns False: all tensors are dense."""
    if isinstance(A, torch.Tensor):
        return False
    raise TypeError(f"expected Tensor but got {type(A)}")


def get_floating_dtype(A: Any) -> Any:
    """The dtype to compute with; float32 for anything but real floating point."""
    kept = (torch.float16, torch.float32, torch.float64)
    return A.dtype if A.dtype in kept else torch.float32


def matmul(A: Any, B: Any) -> Any:
    """A B."""
    return B if A is None else torch.matmul(A, B)


def bform(X: Any, A: Any, Y: Any) -> Any:
    """Xᵀ A Y."""
    return matmul(X.mT, matmul(A, Y))


def qform(A: Any, S: Any) -> Any:
    """Sᵀ A S."""
    return bform(S, A, S)


def basis(A: Any) -> Any:
    """Orthonormal columns that span the same space as those of A."""
    return torch.linalg.qr(A).Q


def symeig(A: Any, largest: bool | None = False) -> tuple[Any, Any]:
    """Eigenvalues and vectors of a symmetric matrix, the largest first if requested."""
    values, vectors = torch.linalg.eigh(A, UPLO="U")
    if largest:
        return torch.flip(values, dims=(-1,)), torch.flip(vectors, dims=(-1,))
    return values, vectors


def __getattr__(name: str) -> Any:
    raise missing.no_module_attribute("torch._linalg_utils", name, list(globals()))
