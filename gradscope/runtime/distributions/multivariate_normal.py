"""The multivariate normal distribution."""

from __future__ import annotations

import math
from typing import Any

import gradscope.runtime as torch
from gradscope.runtime.distributions import constraints
from gradscope.runtime.distributions.distribution import Distribution
from gradscope.runtime.distributions.utils import lazy_property, standard_normal


def times_vector(matrices: Any, vectors: Any) -> Any:
    return torch.matmul(matrices, vectors.unsqueeze(-1)).squeeze(-1)


def squared_length(roots: Any, vectors: Any) -> Any:
    """The squared Mahalanobis norm of vectors, by the lower Cholesky factors of covariances.

    Vectors may have more batch dims, or larger ones; each factor is solved for all of its vectors.
    """
    n = vectors.size(-1)
    shape = vectors.shape[:-1]
    own = roots.dim() - 2
    outer = len(shape) - own
    split: list[int] = list(vectors.shape[:outer])
    for root, size in zip(roots.shape[:-2], vectors.shape[outer:-1], strict=False):
        split += [size // root, root]
    vectors = vectors.reshape((*split, n))
    firsts = list(range(outer, outer + 2 * own, 2))
    order = [*range(outer), *firsts, *(f + 1 for f in firsts), outer + 2 * own]
    vectors = vectors.permute(order)
    flat_roots = roots.reshape(-1, n, n)
    columns = vectors.reshape(-1, flat_roots.size(0), n).permute(1, 2, 0)
    solved = torch.linalg.solve_triangular(flat_roots, columns, upper=False).pow(2).sum(-2)
    lengths = solved.t().reshape(vectors.shape[:-1])
    back = [*range(outer)]
    for i in range(own):
        back += [outer + i, outer + own + i]
    return lengths.permute(back).reshape(shape)


def root_of_inverse(precision: Any) -> Any:
    """The lower Cholesky factor of the covariance, from the precision matrix."""
    flipped = torch.linalg.cholesky(torch.flip(precision, (-2, -1)))
    inverse = torch.transpose(torch.flip(flipped, (-2, -1)), -2, -1)
    identity = torch.eye(precision.shape[-1], dtype=precision.dtype)
    return torch.linalg.solve_triangular(inverse, identity, upper=False)


class MultivariateNormal(Distribution):
    """Vectors around `loc`, with a covariance, a precision, or the covariance's Cholesky factor."""

    arg_constraints = {  # noqa: RUF012
        "loc": constraints.real_vector,
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    support = constraints.real_vector
    has_rsample = True
    batched = ()
    evented = ("loc",)

    def __init__(
        self,
        loc: Any,
        covariance_matrix: Any = None,
        precision_matrix: Any = None,
        scale_tril: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        given = {
            "covariance_matrix": covariance_matrix,
            "precision_matrix": precision_matrix,
            "scale_tril": scale_tril,
        }
        there = [name for name, value in given.items() if value is not None]
        if len(there) != 1:
            raise ValueError(
                "Exactly one of covariance_matrix or precision_matrix or scale_tril may be "
                "specified."
            )
        (name,) = there
        matrix = given[name]
        if matrix.dim() < 2:
            what = "scale_tril matrix" if name == "scale_tril" else name
            raise ValueError(
                f"{what} must be at least two-dimensional, with optional leading batch dimensions"
            )
        batch_shape = torch.broadcast_shapes(matrix.shape[:-2], loc.shape[:-1])
        setattr(self, name, matrix.expand((*batch_shape, -1, -1)))
        self.loc = loc.expand((*batch_shape, -1))
        super().__init__(torch.Size(batch_shape), self.loc.shape[-1:], validate_args=validate_args)
        self._unbroadcasted_scale_tril = _root(name, matrix)

    def _expand_parts(self, new: Any, batch_shape: Any) -> None:
        new._unbroadcasted_scale_tril = self._unbroadcasted_scale_tril
        shape = (*batch_shape, *self.event_shape, *self.event_shape)
        for name in ("covariance_matrix", "scale_tril", "precision_matrix"):
            if name in self.__dict__:
                setattr(new, name, self.__dict__[name].expand(shape))

    def _spread(self, matrix: Any) -> Any:
        return matrix.expand(self._batch_shape + self._event_shape + self._event_shape)

    @lazy_property
    def scale_tril(self) -> Any:
        return self._spread(self._unbroadcasted_scale_tril)

    @lazy_property
    def covariance_matrix(self) -> Any:
        root = self._unbroadcasted_scale_tril
        return self._spread(torch.matmul(root, root.mT))

    @lazy_property
    def precision_matrix(self) -> Any:
        return self._spread(torch.cholesky_inverse(self._unbroadcasted_scale_tril))

    @property
    def mean(self) -> Any:
        return self.loc

    @property
    def mode(self) -> Any:
        return self.loc

    @property
    def variance(self) -> Any:
        squares = self._unbroadcasted_scale_tril.pow(2).sum(-1)
        return squares.expand(self._batch_shape + self._event_shape)

    def rsample(self, sample_shape: Any = torch.Size()) -> Any:  # noqa: B008
        eps = standard_normal(self._extended_shape(sample_shape), self.loc)
        return self.loc + times_vector(self._unbroadcasted_scale_tril, eps)

    def half_log_det(self) -> Any:
        return self._unbroadcasted_scale_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)

    def log_prob(self, value: Any) -> Any:
        self._validate_sample(value)
        length = squared_length(self._unbroadcasted_scale_tril, value - self.loc)
        whole = self._event_shape[0] * math.log(2 * math.pi) + length
        return -0.5 * whole - self.half_log_det()

    def entropy(self) -> Any:
        count = self._event_shape[0]
        found = 0.5 * count * (1.0 + math.log(2 * math.pi)) + self.half_log_det()
        return found.expand(self._batch_shape) if self._batch_shape else found


def _root(name: str, matrix: Any) -> Any:
    if name == "scale_tril":
        return matrix
    if name == "covariance_matrix":
        return torch.linalg.cholesky(matrix)
    return root_of_inverse(matrix)
