"""Derivatives of eigenpairs by their symmetric matrix, if all or only some are known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gradscope.runtime as torch


def symeig_backward(
    grad_values: Any, grad_vectors: Any, A: Any, values: Any, vectors: Any, largest: bool
) -> Any:
    """The gradient of A, from those of some eigenvalues and their vectors."""
    if vectors.size(-1) == vectors.size(-2):
        return _within_span(grad_values, grad_vectors, values, vectors)
    outside = _across(grad_vectors, A, values, vectors, largest)
    inside = _within_span(grad_values, grad_vectors, values, vectors)
    inside -= outside
    return inside


def _within_span(grad_values: Any, grad_vectors: Any, values: Any, vectors: Any) -> Any:
    """The exchange among known vectors: (d_j - d_i)⁻¹ off the diagonal."""
    gaps = values.unsqueeze(-2) - values.unsqueeze(-1)
    gaps.diagonal(dim1=-2, dim2=-1).fill_(float("inf"))
    gaps.pow_(-1)
    transposed = vectors.mT.contiguous()
    turned = torch.matmul(transposed, grad_vectors) * gaps
    return torch.matmul(vectors, torch.matmul(torch.diag_embed(grad_values) + turned, transposed))


# Note [Unknown eigenvectors] Known vectors U also move into the space orthogonal to them. This
# part, dX, solves the Sylvester equation  Vᵀ A V dX - dX D = -Vᵀ A U,  where V spans that space
# (any basis works; this one is random with a fixed seed). With p the polynomial whose roots are the
# known values, p(D) = 0, so the solution is p(A)⁻¹ times a sum over powers of A (Hu and Cheng, The
# polynomial solution to the Sylvester matrix equation, 2006). Vᵀ p(A) V is definite: its Cholesky
# factor solves it.


def _across(grad_vectors: Any, A: Any, values: Any, vectors: Any, largest: bool) -> Any:
    """The contribution of unknown vectors to known ones; see Note [Unknown eigenvectors]."""
    transposed = vectors.mT.contiguous()
    V = _complement(A, vectors, transposed)
    V_transposed = V.mT.contiguous()
    polynomial = with_roots(values)
    degree = polynomial.size(-1) - 1
    moved = grad_vectors
    total = moved.new_zeros(moved.shape)
    for k in range(1, degree + 1):
        total += moved * at_numbers(polynomial[..., k:], values).unsqueeze(-2)
        moved = A.matmul(moved)
    small = torch.matmul(V_transposed, torch.matmul(at_matrix(polynomial, A), V))
    sign = -1 if largest and degree % 2 == 1 else +1
    root = torch.linalg.cholesky(sign * small)
    solved = sign * torch.cholesky_solve(V_transposed.matmul(total), root)
    return V.matmul(solved).matmul(transposed)


def _complement(A: Any, vectors: Any, transposed: Any) -> Any:
    """Columns that span the space orthogonal to these vectors, the same on each call."""
    projection = -vectors.matmul(transposed)
    projection.diagonal(dim1=-2, dim2=-1).add_(1)
    missing = A.size(-1) - vectors.size(-1)
    shape, fresh = (*A.shape[:-1], missing), torch.Generator(A.device)
    return projection.matmul(torch.randn(shape, dtype=A.dtype, device=A.device, generator=fresh))


def with_roots(roots: Any) -> Any:
    """The coefficients, lowest first, of (x - r₁) ⋯ (x - rₙ); the last is 1."""
    degree = roots.shape[-1]
    found = roots.new_zeros((*roots.shape[:-1], degree + 2))
    found[..., 0] = found[..., -1] = 1
    for i in range(1, degree + 1):
        # Each step makes a copy, if it is to be differentiated again.
        after = found.clone() if roots.requires_grad else found
        out = after.narrow(-1, degree - i, i + 1)
        out -= roots.narrow(-1, i - 1, 1) * found.narrow(-1, degree - i + 1, i + 1)
        found = after
    return found.narrow(-1, 1, degree + 1)


def _horner(polynomial: Any, one: Any, step: Callable[[Any, Any], Any]) -> Any:
    """Horner's method from the highest coefficient down, which is 1."""
    found = one.clone()
    for k in range(polynomial.size(-1) - 2, -1, -1):
        found = step(found, polynomial[..., k])
    return found


def at_numbers(polynomial: Any, x: Any) -> Any:
    """The polynomial's value for each number of x."""
    return _horner(
        polynomial,
        x.new_ones(1).expand(x.shape),
        lambda found, coefficient: torch.addcmul(coefficient.unsqueeze(-1), x, found),
    )


def at_matrix(polynomial: Any, x: Any) -> Any:
    """The polynomial's value for a square matrix."""

    def step(found: Any, coefficient: Any) -> Any:
        product = x.matmul(found)
        product.diagonal(dim1=-2, dim2=-1).add_(coefficient.unsqueeze(-1))
        return product

    one = torch.eye(x.size(-1), dtype=x.dtype, device=x.device)
    return _horner(polynomial, one.view(*[1] * (x.dim() - 2), *one.shape), step)
