"""Parametrizations: orthogonal matrices, weight norm and spectral norm."""

from __future__ import annotations

from enum import Enum, auto
from typing import Any

from gradscope.runtime.core.autograd.modes.grad_mode import no_grad
from gradscope.runtime.core.dtypes.limits import finfo
from gradscope.runtime.core.rows.offered import FUNCTIONS
from gradscope.runtime.core.tensors.making import factories, sequences
from gradscope.runtime.core.tensors.tensor.tensor import Tensor
from gradscope.runtime.nn import functional
from gradscope.runtime.nn.modules.module import Module
from gradscope.runtime.nn.utils import parametrize
from gradscope.runtime.nn.utils.transposed import output_dim

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]


class _WeightNorm(Module):
    """A weight computed from its direction and its length."""

    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Any, weight_v: Any) -> Any:
        return FUNCTIONS["_weight_norm"](weight_v, weight_g, self.dim)

    def right_inverse(self, weight: Any) -> Any:
        return FUNCTIONS["norm_except_dim"](weight, 2, self.dim), weight


def weight_norm(module: Any, name: str = "weight", dim: int | None = 0) -> Any:
    """Learn direction and length of a weight separately."""
    parametrize.register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def renamed(state_dict: Any, prefix: str, *others: Any) -> None:
        """Rename the keys of states that the older weight_norm wrote."""
        old = [f"{prefix}{name}_{part}" for part in ("g", "v")]
        if all(key in state_dict for key in old):
            for i, key in enumerate(old):
                state_dict[f"{prefix}parametrizations.{name}.original{i}"] = state_dict.pop(key)

    module._register_load_state_dict_pre_hook(renamed)
    return module


class _SpectralNorm(Module):
    """A weight divided by its largest singular value, estimated by power iterations."""

    _u: Any
    _v: Any

    def __init__(
        self, weight: Any, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12
    ) -> None:
        super().__init__()
        dims = weight.ndim
        if not -dims <= dim < dims:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [-{dims}, {dims - 1}] but got "
                f"{dim})"
            )
        if n_power_iterations <= 0:
            raise ValueError(
                "Expected n_power_iterations to be positive, but got "
                f"n_power_iterations={n_power_iterations}"
            )
        self.dim = dim % dims
        self.eps = eps
        if dims > 1:
            self.n_power_iterations = n_power_iterations
            matrix = self._reshape_weight_to_matrix(weight)
            first, second = (matrix.new_empty(n).normal_(0, 1) for n in matrix.size())
            self.register_buffer("_u", functional.normalize(first, dim=0, eps=eps))
            self.register_buffer("_v", functional.normalize(second, dim=0, eps=eps))
            self._power_method(matrix, 15)

    def _reshape_weight_to_matrix(self, weight: Any) -> Any:
        if self.dim:
            others = (d for d in range(weight.dim()) if d != self.dim)
            weight = weight.permute(self.dim, *others)
        return weight.flatten(1)

    @no_grad()
    def _power_method(self, weight_mat: Any, n_power_iterations: int) -> None:
        for _ in range(n_power_iterations):
            ahead = FUNCTIONS["mv"](weight_mat, self._v)
            self._u = functional.normalize(ahead, dim=0, eps=self.eps, out=self._u)
            back = FUNCTIONS["mv"](weight_mat.H, self._u)
            self._v = functional.normalize(back, dim=0, eps=self.eps, out=self._v)

    def forward(self, weight: Any) -> Any:
        if weight.ndim == 1:
            return functional.normalize(weight, dim=0, eps=self.eps)
        matrix = self._reshape_weight_to_matrix(weight)
        if self.training:
            self._power_method(matrix, self.n_power_iterations)
        u, v = self._u.clone(), self._v.clone()
        return weight / FUNCTIONS["vdot"](u, FUNCTIONS["mv"](matrix, v))

    def right_inverse(self, value: Any) -> Any:
        return value


def spectral_norm(
    module: Any,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> Any:
    """Divide a weight by its largest singular value."""
    weight = _tensor_of(module, name)
    dim = output_dim(module) if dim is None else dim
    made = _SpectralNorm(weight, n_power_iterations, dim, eps)
    return parametrize.register_parametrization(module, name, made)


def _tensor_of(module: Any, name: str) -> Any:
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    return weight


class _OrthMaps(Enum):
    matrix_exp = auto()
    cayley = auto()
    householder = auto()


def _is_orthogonal(matrix: Any) -> bool:
    rows, columns = matrix.size(-2), matrix.size(-1)
    one = sequences.eye(columns, dtype=matrix.dtype)
    near = 10.0 * rows * finfo(matrix.dtype).eps
    return bool(FUNCTIONS["allclose"](matrix.mH @ matrix, one, atol=near))


def _make_orthogonal(matrix: Any) -> Any:
    """The orthogonal factor of a matrix, with signs that make it unique."""
    factors, tau = FUNCTIONS["geqrf"](matrix)
    made = FUNCTIONS["linalg.householder_product"](factors, tau)
    made *= factors.diagonal(dim1=-2, dim2=-1).sgn().unsqueeze(-2)
    return made


class _Orthogonal(Module):
    """Makes a matrix orthogonal: by matrix exponential, Cayley map or Householder products."""

    base: Any

    def __init__(
        self, weight: Any, orthogonal_map: _OrthMaps, *, use_trivialization: bool = True
    ) -> None:
        super().__init__()
        if weight.is_complex() and orthogonal_map == _OrthMaps.householder:
            raise ValueError("The householder parametrization does not support complex tensors.")
        self.shape = weight.shape
        self.orthogonal_map = orthogonal_map
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, X: Any) -> Any:
        transposed = X.size(-2) < X.size(-1)
        given = X.mT if transposed else X
        if self.orthogonal_map == _OrthMaps.householder:
            made = self._reflected(given)
        else:
            made = self._turned(given)
        if hasattr(self, "base"):
            made = self.base @ made
        return made.mT if transposed else made

    def _turned(self, given: Any) -> Any:
        """By way of a skew-symmetric matrix."""
        rows, columns = given.size(-2), given.size(-1)
        below = given.tril()
        if rows != columns:
            fill = below.new_zeros(rows, rows - columns).expand(*below.shape[:-2], -1, -1)
            below = FUNCTIONS["cat"]([below, fill], dim=-1)
        skew = below - below.mH
        if self.orthogonal_map == _OrthMaps.matrix_exp:
            made = FUNCTIONS["matrix_exp"](skew)
        else:
            one = sequences.eye(rows, dtype=skew.dtype, device=skew.device)
            add, solve = FUNCTIONS["add"], FUNCTIONS["linalg.solve"]
            made = solve(add(one, skew, alpha=-0.5), add(one, skew, alpha=0.5))
        return made[..., :columns] if rows != columns else made

    def _reflected(self, given: Any) -> Any:
        below = given.tril(diagonal=-1)
        tau = 2.0 / (1.0 + (below * below).sum(dim=-2))
        made = FUNCTIONS["linalg.householder_product"](below, tau)
        return made * given.diagonal(dim1=-2, dim2=-1).int().unsqueeze(-2)

    @no_grad()
    def right_inverse(self, Q: Any) -> Any:
        if Q.shape != self.shape:
            raise ValueError(
                f"Expected a matrix or batch of matrices of shape {self.shape}. Got a tensor of "
                f"shape {Q.shape}."
            )
        transposed = Q.size(-2) < Q.size(-1)
        given = Q.mT if transposed else Q
        if hasattr(self, "base"):
            self.base = self._completed(given)
            nothing = factories.zeros_like(Q)
            nothing.diagonal(dim1=-2, dim2=-1).fill_(-1.0)
            return nothing
        if self.orthogonal_map != _OrthMaps.householder:
            raise NotImplementedError(
                "It is not possible to assign to the matrix exponential or the Cayley "
                "parametrizations when use_trivialization=False."
            )
        factors, tau = FUNCTIONS["geqrf"](given)
        factors.diagonal(dim1=-2, dim2=-1).sign_()
        factors.diagonal(dim1=-2, dim2=-1)[tau == 0.0] *= -1
        return factors.mT if transposed else factors

    def _completed(self, given: Any) -> Any:
        """A square orthogonal matrix whose first columns are this matrix."""
        rows, columns = given.size(-2), given.size(-1)
        if rows == columns:
            return given.clone() if _is_orthogonal(given) else _make_orthogonal(given)
        shape = (*given.size()[:-2], rows, rows - columns)
        more = FUNCTIONS["randn"](*shape, dtype=given.dtype, device=given.device)
        return _make_orthogonal(FUNCTIONS["cat"]([given, more], dim=-1))


def orthogonal(
    module: Any,
    name: str = "weight",
    orthogonal_map: str | None = None,
    *,
    use_trivialization: bool = True,
) -> Any:
    """Keep a matrix orthogonal during training."""
    weight = _tensor_of(module, name)
    if weight.ndim < 2:
        raise ValueError(
            f"Expected a matrix or batch of matrices. Got a tensor of {weight.ndim} dimensions."
        )
    if orthogonal_map is None:
        square = weight.size(-2) == weight.size(-1) or weight.is_complex()
        orthogonal_map = "matrix_exp" if square else "householder"
    kind = getattr(_OrthMaps, orthogonal_map, None)
    if kind is None:
        raise ValueError(
            'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". '
            f"Got: {orthogonal_map}"
        )
    made = _Orthogonal(weight, kind, use_trivialization=use_trivialization)
    return parametrize.register_parametrization(module, name, made, unsafe=True)
