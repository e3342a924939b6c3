"""Further products: multi_dot, kron, cross, vecdot, addbmm, matrix_exp, vander."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from gradscope.runtime.core.calls.declare import (
    BY_HAND,
    INTERNAL,
    PRODUCT,
    family,
    inplace,
    jvp,
    op,
    w,
)
from gradscope.runtime.core.dtypes import dtypes
from gradscope.runtime.core.dtypes.names import c_name, scalar_name
from gradscope.runtime.core.errors.dtypes import other_dtype
from gradscope.runtime.core.kernels.linalg import linalg as kernels
from gradscope.runtime.core.kernels.support import HALVES
from gradscope.runtime.core.ops.in_formulas import on_arrays, times, total
from gradscope.runtime.core.ops.matrix.lu import side_by_side
from gradscope.runtime.core.ops.matrix.matrices import check_floating, check_square, conjugate, mH
from gradscope.runtime.core.ops.products.linalg import addmm, mm, vdot
from gradscope.runtime.core.ops.shape.broadcasting import broadcast_shape, not_expandable
from gradscope.runtime.core.ops.shape.shape import _unsafe_view as unsafe_view
from gradscope.runtime.core.rows.offered import FUNCTIONS, both, function
from gradscope.runtime.core.state.warned import warn
from gradscope.runtime.core.tensors.dims import text, wrapped
from gradscope.runtime.core.tensors.making import factories

# -- cross ---------------------------------------------------------------------------------------


def _cross(self, other, dim=-1):
    if self.ndim != other.ndim:
        raise RuntimeError("linalg.cross: inputs must have the same number of dimensions.")
    place = wrapped(dim, self.ndim)
    sizes = [x.shape[place] if x.ndim else 1 for x in (self, other)]
    if sizes != [3, 3]:
        raise RuntimeError(
            f"linalg.cross: inputs dimension {dim} must have length 3. Got {sizes[0]} and "
            f"{sizes[1]}"
        )
    if self.dtype != other.dtype:
        raise other_dtype(scalar_name(self), other)
    broadcast_shape([self.shape, other.shape])
    first, second = (np.moveaxis(x, place, 0) for x in (self, other))
    parts = [
        first[(i + 1) % 3] * second[(i + 2) % 3] - first[(i + 2) % 3] * second[(i + 1) % 3]
        for i in range(3)
    ]
    return np.ascontiguousarray(np.stack(parts, place))


linalg_cross__default = op(
    "LinalgCrossBackward0",
    _cross,
    PRODUCT,
    BY_HAND,
    INTERNAL,
    self=lambda grad, other, dim: w.linalg_cross(conjugate(other), grad, dim),
    other=lambda grad, self, dim: w.linalg_cross(grad, conjugate(self), dim),
)

# -- addbmm --------------------------------------------------------------------------------------


def _addbmm(self, batch1, batch2, *, beta=1, alpha=1):
    for matrix in (batch1, batch2):
        if matrix.ndim != 3:
            raise IndexError(
                "Dimension out of range (expected to be in range of "
                f"[{-matrix.ndim}, {matrix.ndim - 1}], but got 2)"
            )
    if batch1.shape[0] != batch2.shape[0]:
        raise RuntimeError(
            "batch1 and batch2 must have same number of batches, got "
            f"{batch1.shape[0]} and {batch2.shape[0]}"
        )
    if batch1.shape[2] != batch2.shape[1]:
        sizes = [f"{m.shape[1]}x{m.shape[2]}" for m in (batch1, batch2)]
        raise RuntimeError(f"Incompatible matrix sizes for bmm ({sizes[0]} and {sizes[1]})")
    kind = self.dtype
    if kind in HALVES:
        return _added_one_by_one(self, batch1, batch2, beta, alpha)
    shape = (batch1.shape[1], batch2.shape[2])
    try:
        spread = np.broadcast_to(self, shape)
    except ValueError:
        raise RuntimeError(not_expandable(self, shape, 2 - self.ndim)) from None
    product = np.tensordot(batch1, batch2, ((0, 2), (0, 1))).astype(kind, copy=False)
    if alpha != 1:
        product = product * np.asarray(alpha).astype(kind)
    if beta == 0:
        return product
    return product + (spread if beta == 1 else spread * np.asarray(beta).astype(kind))


def _added_one_by_one(made, batch1, batch2, beta, alpha):
    """Halves are rounded after each product, as in PyTorch."""
    for first, second in zip(batch1, batch2, strict=True):
        made = addmm.op.kernel(made, first, second, beta=beta, alpha=alpha)
        beta = 1
    return made


def _spread(grad, count):
    if on_arrays(grad):
        return np.broadcast_to(grad, (count, *grad.shape))
    return grad.unsqueeze(0).expand(count, *grad.shape)


def _addbmm_tangent(self_t, batch1_t, batch2_t, batch1, batch2, beta, alpha):
    pairs = ((batch1_t, batch2), (batch1, batch2_t))
    terms = [
        times((first @ second).sum(0), alpha)
        for first, second in pairs
        if first is not None and second is not None
    ]
    return total([*terms, *([] if self_t is None else [times(self_t, beta)])])


def _addbmm_slope(
    grad, batch1_sym_argsize_0, batch1_sym_argsize_1, batch2, batch2_sym_argsize_2, alpha
):
    grads = _spread(grad, batch1_sym_argsize_0)
    return times(w.bmm(grads, w.transpose(batch2, 1, 2)), alpha)


addbmm = op(
    "AddbmmBackward0",
    _addbmm,
    jvp(_addbmm_tangent),
    self=lambda grad, beta: times(grad, beta),
    batch1=_addbmm_slope,
    batch2=lambda grad, batch1, batch1_sym_argsize_0, alpha: times(
        w.bmm(w.transpose(batch1, 1, 2), _spread(grad, batch1_sym_argsize_0)), alpha
    ),
)
addbmm_ = inplace(addbmm)


@function
def spmm(input, mat2):
    """The product of a possibly sparse matrix; all matrices are dense here."""
    return mm(input, mat2)


# -- matrix_exp ----------------------------------------------------------------------------------


def _exponential(self):
    check_square("linalg.matrix_exp", self)
    check_floating("linalg.matrix_exp", self)
    if self.dtype in HALVES:
        return kernels.matrix_exp(self.astype(np.float32)).astype(self.dtype)
    return kernels.matrix_exp(self)


def _along(direction, matrix):
    """The derivative of exp along a direction: a block of the exponential of twice the size."""
    size = matrix.shape[-1]
    zeros = np.zeros_like(matrix) if on_arrays(matrix) else factories.zeros_like(matrix)
    upper = side_by_side(matrix, direction, -1)
    lower = side_by_side(zeros, matrix, -1)
    return w.linalg_matrix_exp(side_by_side(upper, lower, -2))[..., :size, size:]


linalg_matrix_exp__default = op(
    "LinalgMatrixExpBackward0",
    _exponential,
    BY_HAND,
    INTERNAL,
    jvp(lambda self_t, self: _along(self_t, self)),
    self=lambda grad, self: _along(grad, mH(self)),
)
family(globals())

# -- public functions ---------------------------------------------------------------------------


def linalg_cross(input, other, *, dim=-1):
    """The vector perpendicular to two others, along a dim of size 3."""
    return linalg_cross__default(input, other, dim)


@both
def cross(input, other, dim=None):
    """The same along the first dim of size 3, if `dim` is not given."""
    if dim is None:
        warn(
            "Using torch.cross without specifying the dim arg is deprecated.\nPlease either pass "
            "the dim explicitly or simply use torch.linalg.cross.\nThe default value of dim will "
            "change to agree with that of linalg.cross in a future release."
        )
        dim = next((d for d, size in enumerate(input.shape) if size == 3), None)
        if dim is None:
            raise RuntimeError("no dimension of size 3 in input")
    return linalg_cross__default(input, other, dim)


def linalg_matrix_exp(A):
    """The matrix exponential."""
    return linalg_matrix_exp__default(A)


@both
def matrix_exp(input):
    return linalg_matrix_exp__default(input)


@both
def kron(input, other):
    """The Kronecker product."""
    if not hasattr(other, "_array"):
        raise TypeError(
            f"kron(): argument 'other' (position 2) must be Tensor, not {type(other).__name__}"
        )
    ndim = max(input.dim(), other.dim())
    first = (1,) * (ndim - input.dim()) + tuple(input.shape)
    second = (1,) * (ndim - other.dim()) + tuple(other.shape)
    spread = unsafe_view(input, tuple(n for size in first for n in (size, 1)))
    repeated = unsafe_view(other, tuple(n for size in second for n in (1, size)))
    shape = tuple(a * b for a, b in zip(first, second, strict=True))
    return unsafe_view(spread * repeated, shape)


def vecdot(x, y, *, dim=-1):
    """Sums of products along a dim; the first factor is conjugated."""
    check_floating("linalg.vecdot", x._array)
    if x.dtype is not y.dtype:
        raise RuntimeError(
            "linalg.vecdot: Expected x and y to have the same dtype, but found x of type "
            f"{x.dtype.scalar_name} and y of type {y.dtype.scalar_name} instead"
        )
    if x.dim() == 1 and y.dim() == 1:
        return vdot(x, y)
    return (x.conj() * y).sum((dim,))


def linalg_matmul(input, other):
    return FUNCTIONS["matmul"](input, other)


def linalg_diagonal(A, *, offset=0, dim1=-2, dim2=-1):
    """The diagonal of each matrix."""
    return A.diagonal(offset, dim1, dim2)


def _checked_chain(tensors):
    if hasattr(tensors, "_array"):
        raise TypeError(
            "linalg_multi_dot(): argument 'tensors' (position 1) must be tuple of Tensors, not "
            "Tensor"
        )
    given = list(tensors)
    if len(given) < 2:
        raise RuntimeError(f"multi_dot(): expected at least 2 tensors but got {len(given)}")
    ends = (("first", 0), ("last", len(given) - 1))
    for name, place in ends:
        if given[place].dim() not in {1, 2}:
            raise RuntimeError(
                f"multi_dot(): the {name} tensor must be 1D or 2D but got {given[place].dim()}D"
            )
    for place, one in enumerate(given[1:-1], 1):
        if one.dim() != 2:
            raise RuntimeError(f"multi_dot(): tensor {place} must be 2D but got {one.dim()}D")
    for place, one in enumerate(given):
        if one.dtype is not given[0].dtype:
            raise RuntimeError(
                "multi_dot(): all tensors must have be the same dtype but tensor 0 is "
                f"{c_name(given[0]._array)} and tensor {place} {c_name(one._array)}"
            )
    return given


def multi_dot(tensors):
    """The product of several matrices, in the order with the fewest multiplications."""
    given = _checked_chain(tensors)
    shape = (*given[0].shape[:-1], *(given[-1].shape[1:]))
    chain = list(given)
    if chain[0].dim() == 1:
        chain[0] = chain[0].unsqueeze(0)
    if chain[-1].dim() == 1:
        chain[-1] = chain[-1].unsqueeze(-1)
    for place, (one, following) in enumerate(pairwise(chain)):
        if one.shape[1] != following.shape[0]:
            raise RuntimeError(
                f"multi_dot(): tensors {place} and {place + 1} with shapes {text(one.shape)} and "
                f"{text(following.shape)} cannot be multiplied"
            )
    return _product(chain, 0, len(chain) - 1, _splits(chain)).view(shape)


def _splits(chain):
    """Where to split each part of the chain, by lowest cost."""
    sizes = [chain[0].shape[0], *(one.shape[1] for one in chain)]
    count = len(chain)
    cost = {(i, i): 0 for i in range(count)}
    split = {}
    costs: list[int] = []
    for length in range(1, count):
        for i in range(count - length):
            j = i + length
            costs = [
                cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1]
                for k in range(i, j)
            ]
            cost[i, j] = min(costs)
            split[i, j] = i + costs.index(cost[i, j])
    if count == 3 and len(set(costs)) == 1:
        split[0, 2] = 1  # for equal costs PyTorch takes the left one
    return split


def _product(chain, i, j, split):
    if i == j:
        return chain[i]
    k = split[i, j]
    return mm(_product(chain, i, k, split), _product(chain, k + 1, j, split))


@function
def chain_matmul(*matrices):
    """The product of several matrices."""
    for matrix in matrices:
        if matrix.dim() != 2:
            raise RuntimeError(f"Tensor dimension is {matrix.dim()}, expected 2 instead.")
    return matrices[0] if len(matrices) == 1 else multi_dot(matrices)


def linalg_vander(x, *, N=None):
    """Powers of each number, from the zeroth on."""
    kind = x.dtype
    if kind is dtypes.bool_:
        raise RuntimeError(
            "linalg.vander supports floating point, complex, and integer tensors, but got Bool"
        )
    n = (x.shape[-1] if x.dim() else 1) if N is None else N
    if n <= 1:
        raise RuntimeError("N must be greater than 1.")
    column = x.unsqueeze(-1) if x.dim() else x.unsqueeze(-1).unsqueeze(-1)
    powers = column.expand((*column.shape[:-1], n - 1)).cumprod(-1)
    ones = powers.new_ones((*powers.shape[:-1], 1))
    return FUNCTIONS["cat"]((ones, powers), -1)


@function
def vander(x, N=None, increasing=False):
    """Powers of each number, in descending order unless `increasing`."""
    if x.dim() != 1:
        raise RuntimeError("x must be a one-dimensional tensor.")
    n = x.shape[0] if N is None else N
    if n < 0:
        raise RuntimeError("N must be non-negative.")
    whole = not (x.dtype.is_floating_point or x.dtype.is_complex)
    kind = dtypes.int64 if whole else x.dtype
    made = factories.empty((x.shape[0], n), dtype=kind)
    if n > 0:
        made.select(1, 0).fill_(1)
    if n > 1:
        made.narrow(1, 1, n - 1).copy_(x.unsqueeze(1))
    if n > 2:
        made.narrow(1, 1, n - 1).copy_(made.narrow(1, 1, n - 1).cumprod(1))
    return made if increasing else made.flip((1,))


FUNCTIONS.update(
    {
        "linalg.cross": linalg_cross,
        "linalg.matrix_exp": linalg_matrix_exp,
        "linalg.vecdot": vecdot,
        "linalg.matmul": linalg_matmul,
        "linalg.diagonal": linalg_diagonal,
        "linalg.multi_dot": multi_dot,
        "linalg.vander": linalg_vander,
    }
)
