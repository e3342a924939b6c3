"""Vector norms: linalg.vector_norm, norm, normalize."""

from __future__ import annotations

import math

import numpy as np

from gradscope.runtime.core.calls.declare import (
    BY_HAND,
    FUNCTION_ONLY,
    PROMOTES,
    REDUCES,
    TENSORS_ONLY,
    family,
    op,
    w,
)
from gradscope.runtime.core.calls.extra_arguments.out import written
from gradscope.runtime.core.dtypes import dtypes
from gradscope.runtime.core.dtypes.names import scalar_name
from gradscope.runtime.core.kernels.support import HALVES
from gradscope.runtime.core.ops.in_formulas import without
from gradscope.runtime.core.ops.pointwise.arithmetic import div
from gradscope.runtime.core.ops.reduce.sums import accumulated, checked, dims_of, unreduced
from gradscope.runtime.core.rows.offered import FUNCTIONS, both, nn_function


def norm_kernel(self, ord=2, dim=None, keepdim=False):
    if self.dtype.kind in "biu":
        kind = scalar_name(self)
        raise RuntimeError(
            f"linalg.vector_norm: Expected a floating point or complex tensor as input. Got {kind}"
        )
    if self.dtype in HALVES:
        return np.asarray(norm_kernel(self.astype(np.float32), ord, dim, keepdim)).astype(
            self.dtype
        )
    dim = checked(dim, self.ndim)
    if ord == 2 and dim is None and not keepdim and self.dtype.kind == "f":
        flat = self.reshape(-1)
        return np.sqrt(np.dot(flat, flat))
    size = np.abs(self)
    if math.isinf(ord):
        return _extreme(size, ord, dim, keepdim)
    if ord == 0:
        return accumulated((size != 0).astype(size.dtype), dim, keepdim)
    if ord == 1:
        return accumulated(size, dim, keepdim)
    if ord == 2:
        return np.sqrt(accumulated(size * size, dim, keepdim))
    kind = size.dtype.type
    return np.power(accumulated(np.power(size, kind(ord)), dim, keepdim), kind(1 / ord))


def _extreme(size, ord, dim, keepdim):
    if not size.size and (dim is None or any(size.shape[d] == 0 for d in dim)):
        raise RuntimeError(
            f"linalg.vector_norm cannot compute the {ord:g} norm on an empty tensor because the "
            "operation does not have an identity"
        )
    ufunc = np.maximum if ord > 0 else np.minimum
    return ufunc.reduce(size, axis=dim, keepdims=keepdim)


def norm_slope(grad, self, result, ord, dim, keepdim):
    """The p-norm's derivative: sgn(x) |x|**(p - 1) / norm**(p - 1), zero where undefined."""
    shape = tuple(self.shape)
    grad, result = (unreduced(x, shape, dim, keepdim) for x in (grad, result))
    if ord == 0:
        return None
    if ord == 1:
        return w.sgn(self) * grad
    if ord == 2:
        return grad * without(self / result, result == 0)
    size = w.abs(self)
    if math.isinf(ord):
        best = (size == result) | (size != size)
        share = grad / best.sum((best.ndim and dim) or None, keepdims=True)
        return w.sgn(self) * (share * best)
    if ord < 1:
        return w.sgn(self) * without(size ** (ord - 1), self == 0) * grad * result ** (1 - ord)
    scaled = w.sgn(self) * size ** (ord - 1) if ord < 2 else self * size ** (ord - 2)
    return scaled * without(grad / result ** (ord - 1), result == 0)


linalg_vector_norm = op(
    "LinalgVectorNormBackward0", norm_kernel, REDUCES, FUNCTION_ONLY, BY_HAND, self=norm_slope
)
dist = op(
    "DistBackward0",
    lambda self, other, p=2: norm_kernel(self - other, p),
    REDUCES,
    PROMOTES,
    TENSORS_ONLY,
    self=lambda grad, self, other, p, result: norm_slope(
        grad, self - other, result, p, None, False
    ),
    other=lambda grad, self, other, p, result: (
        -norm_slope(grad, self - other, result, p, None, False)
    ),
)
family(globals())


def check_dtype(name, tensor, dtype):
    """Check that a norm can be computed in this dtype."""
    kind = tensor.dtype
    if not (dtype.is_floating_point or dtype.is_complex):
        raise RuntimeError(
            f"{name}: dtype should be floating point or complex, but got {dtype.scalar_name}"
        )
    if kind.is_complex != dtype.is_complex:
        sort = "complex" if kind.is_complex else "real"
        raise RuntimeError(
            f"{name}: dtype should be {sort} for {sort} inputs, but got {dtype.scalar_name}"
        )
    if dtypes.promote_types(kind, dtype) is not dtype:
        raise RuntimeError(
            f"{name}: the dtype of the input ({kind.scalar_name}) should be convertible without "
            f"narrowing to the specified dtype ({dtype.scalar_name})"
        )


def vector_norm(x, ord=2, dim=None, keepdim=False, *, dtype=None, out=None):
    """The p-norm of all elements, or along some dims."""
    if isinstance(ord, str):
        raise TypeError("linalg_vector_norm(): argument 'ord' (position 2) must be Number, not str")
    if dtype is not None:
        check_dtype("linalg.vector_norm", x, dtype)
        x = x.to(dtype)
    made = linalg_vector_norm(x, ord, None if dim is None else dims_of(dim), keepdim)
    return written("linalg_vector_norm", made, out)


FUNCTIONS["linalg.vector_norm"] = vector_norm


@both
def norm(input, p="fro", dim=None, keepdim=False, dtype=None):
    """The p-norm; "fro" is the root of the sum of squares."""
    few = dim is None or isinstance(dim, int) or len(dim) <= 2
    if isinstance(p, str) and not (p == "fro" and few):
        dims = tuple(range(input.dim())) if dim is None else dims_of(dim)
        return FUNCTIONS["linalg.matrix_norm"](input, p, dims, keepdim, dtype=dtype)
    ord = 2 if p == "fro" else 2.0 if p is None else p
    return vector_norm(input, ord, dim, keepdim, dtype=dtype)


@nn_function
def normalize(input, p=2.0, dim=1, eps=1e-12, out=None):
    """Vectors along a dim, each divided by its norm."""
    norm = input.norm(p, dim, keepdim=True)
    if out is None:
        return input / norm.clamp_min(eps).expand_as(input)
    return div(input, norm.clamp_min_(eps).expand_as(input), out=out)
