"""Products of vectors and matrices: mm, bmm, mv, dot, addmm and similar ones.

# Note [Gradients laid out as what they belong to]
The gradient of a transposed matrix is computed transposed, so that undoing the transposition leaves
it laid out as the matrix itself, and it can be moved into a `.grad` without a copy. PyTorch decides
this by the strides it saves, and so does this runtime.
"""

from __future__ import annotations

import numpy as np

from gradscope.runtime.core.calls.declare import (
    BY_HAND,
    LINEAR,
    PRODUCT,
    Memory,
    family,
    inplace,
    jvp,
    op,
    w,
)
from gradscope.runtime.core.dtypes.names import c_name, scalar_name
from gradscope.runtime.core.errors.dtypes import (
    other_dtype,
    unknown_dtype,
    unlike_dtypes,
    unlike_three,
)
from gradscope.runtime.core.kernels.linalg.products import product
from gradscope.runtime.core.kernels.support import HALVES
from gradscope.runtime.core.ops.in_formulas import times, total
from gradscope.runtime.core.ops.shape.broadcasting import not_expandable
from gradscope.runtime.core.rows.traits import AS_OPERANDS, MATRICES
from gradscope.runtime.core.tensors.dims import text

FLOAT32 = np.dtype(np.float32)
ndarray = np.ndarray
SMALL = 1 << 12
"""Number of elements of the left matrix below which NumPy multiplies without further checks."""


def _product(left, right):
    """The matrix product of two arrays that fit; halves are computed in float32."""
    if left.itemsize == 2 and left.dtype in HALVES:
        return (left.astype(np.float32) @ right.astype(np.float32)).astype(left.dtype)
    if left.ndim > 2:
        return left @ right
    large = left.size >= SMALL and left.ndim == right.ndim == 2
    return product(left, right) if large else left.dot(right)


def _same_dtype(left, right):
    if left.dtype != right.dtype:
        raise RuntimeError(
            f"expected m1 and m2 to have the same dtype, but got: {c_name(left)} != {c_name(right)}"
        )
    if left.dtype.kind == "b":
        raise unknown_dtype("addmm_impl_cpu_", left)


def _mm(self, mat2):
    plain = self.dtype is FLOAT32 is mat2.dtype
    if not plain and (self.dtype is not mat2.dtype or self.dtype.kind not in "fc"):
        _same_dtype(self, mat2)
    if self.ndim == 2 == mat2.ndim:
        try:
            return self.dot(mat2) if plain and self.size < SMALL else _product(self, mat2)
        except ValueError:
            raise RuntimeError(
                "mat1 and mat2 shapes cannot be multiplied "
                f"({self.shape[0]}x{self.shape[1]} and {mat2.shape[0]}x{mat2.shape[1]})"
            ) from None
    raise RuntimeError("self must be a matrix" if self.ndim != 2 else "mat2 must be a matrix")


def _columns_first(shape, strides, grad):
    """Whether a matrix is column-major. Its gradient has its dtype.

    See Note [Gradients laid out as what they belong to].
    """
    itemsize = grad.itemsize
    return strides[0] == itemsize and strides[1] == shape[0] * itemsize


def _left(grad, mat2, self_shape, self_strides):
    """The gradient of the left matrix of a product."""
    if self_strides[0] <= self_strides[1] and _columns_first(self_shape, self_strides, grad):
        if grad.__class__ is ndarray:
            return _product(mat2, grad.T).T
        return w.t(w.mm(mat2, w.t(grad)))
    if grad.dtype is FLOAT32 and grad.size < SMALL:  # an array's; a tensor has another
        return grad.dot(mat2.T)
    if grad.__class__ is ndarray:
        return _product(grad, mat2.T)
    return w.mm(grad, w.t(mat2))


def _right(grad, self, mat2_shape, mat2_strides):
    """The gradient of the right one; `self` is the left one."""
    if mat2_strides[0] <= mat2_strides[1] and _columns_first(mat2_shape, mat2_strides, grad):
        if grad.__class__ is ndarray:
            return _product(grad.T, self).T
        return w.t(w.mm(w.t(grad), self))
    if grad.dtype is FLOAT32 and self.size < SMALL:
        return self.T.dot(grad)
    if grad.__class__ is ndarray:
        return _product(self.T, grad)
    return w.mm(w.t(self), grad)


mm = op(
    "MmBackward0",
    _mm,
    MATRICES,
    PRODUCT,
    self=_left,
    mat2=_right,
)


def _bmm(self, mat2):
    for name, matrix in (("batch1", self), ("batch2", mat2)):
        if matrix.ndim != 3:
            raise RuntimeError(f"{name} must be a 3D tensor")
    if self.shape[0] != mat2.shape[0] or self.shape[2] != mat2.shape[1]:
        wanted = [self.shape[0], self.shape[2]]
        raise RuntimeError(
            f"Expected size for first two dimensions of batch2 tensor to be: {wanted} but got: "
            f"{text(mat2.shape[:2])}."
        )
    if self.dtype != mat2.dtype:
        raise other_dtype(scalar_name(self), mat2)
    _same_dtype(self, mat2)
    return _product(self, mat2)


bmm = op(
    "BmmBackward0",
    _bmm,
    PRODUCT,
    self=lambda grad, mat2: w.bmm(grad, w.transpose(mat2, 1, 2)),
    mat2=lambda grad, self: w.bmm(w.transpose(self, 1, 2), grad),
)


def _mv(self, vec):
    if self.ndim != 2 or vec.ndim != 1:
        raise RuntimeError(f"vector + matrix @ vector expected, got 1, {self.ndim}, {vec.ndim}")
    if self.shape[1] != vec.shape[0]:
        raise RuntimeError(
            f"size mismatch, got input ({self.shape[0]}), mat ({self.shape[0]}x{self.shape[1]}), "
            f"vec ({vec.shape[0]})"
        )
    if self.dtype != vec.dtype:
        raise unlike_three(vec, self, vec)
    _same_dtype(self, vec)
    return _product(self, vec)


mv = op(
    "MvBackward0",
    _mv,
    PRODUCT,
    self=lambda grad, vec: w.unsqueeze(grad, 1) * vec,
    vec=lambda grad, self: w.mv(w.t(self), grad),
)


def _check_vectors(self, tensor):
    if self.ndim != 1 or tensor.ndim != 1:
        raise RuntimeError(f"1D tensors expected, but got {self.ndim}D and {tensor.ndim}D tensors")
    if self.dtype != tensor.dtype:
        kinds = [scalar_name(a) for a in (self, tensor)]
        raise RuntimeError(
            f"dot : expected both vectors to have same dtype, but found {kinds[0]} and {kinds[1]}"
        )
    if self.shape != tensor.shape:
        raise RuntimeError(
            f"inconsistent tensor size, expected tensor {text(self.shape)} and src "
            f"{text(tensor.shape)} to have the same number of elements, but got {self.size} and "
            f"{tensor.size} elements respectively"
        )
    if self.dtype.kind == "b":
        raise NotImplementedError("\"dot\" not implemented for 'Bool'")


def _dot(self, tensor):
    _check_vectors(self, tensor)
    return _product(self, tensor)


def _vdot(self, other):
    _check_vectors(self, other)
    return _product(self.conj(), other)


dot = op(
    "DotBackward0",
    _dot,
    PRODUCT,
    self=lambda grad, tensor: grad * tensor,
    tensor=lambda grad, self: grad * self,
)
vdot = op(
    "VdotBackward0",
    _vdot,
    PRODUCT,
    BY_HAND,
    self=lambda grad, other: grad.conj() * other,
    other=lambda grad, self: grad * self,
)


def _added_once(multiply, self, left, right, beta, alpha):
    """The sum of an addend and a product; halves are rounded once, at the end."""
    if self.itemsize == 2 and self.dtype in HALVES and left.dtype is right.dtype is self.dtype:
        product = multiply(left.astype(np.float32), right.astype(np.float32))
        return _added(self.astype(np.float32), product, beta, alpha).astype(self.dtype)
    return _added(self, multiply(left, right), beta, alpha)


def _added(self, product, beta, alpha):
    """`beta * self + alpha * product`; for beta = 0 `self` is not read at all."""
    if alpha != 1:
        product = product * np.asarray(alpha).astype(product.dtype)
    if beta == 0:
        return product
    addend = self if beta == 1 else self * np.asarray(beta).astype(self.dtype)
    if product.ndim and product.dtype == addend.dtype and addend.ndim <= product.ndim:
        try:
            product += addend
        except ValueError:
            raise RuntimeError(
                not_expandable(self, product.shape, product.ndim - self.ndim)
            ) from None
        return product
    if self.ndim > product.ndim:
        raise RuntimeError(not_expandable(self, product.shape, product.ndim - self.ndim))
    raise unlike_dtypes("self", self, product)


def _added_tangent(multiply, self_t, first, second, beta, alpha):
    """The sum of the available parts: the addend's tangent, and products with one tangent each."""
    pairs = [pair for pair in (first, second) if pair[0] is not None and pair[1] is not None]
    terms = [times(multiply(*pair), alpha) for pair in pairs]
    if self_t is not None:
        terms.append(times(self_t, beta))
    return total(terms)


def _outer(vec1, vec2):
    return w.unsqueeze(vec1, 1) * vec2


def _addmm(self, mat1, mat2, *, beta=1, alpha=1):
    if mat1.dtype is not mat2.dtype or self.dtype is not mat2.dtype:
        for name, array in (("self", self), ("mat1", mat1)):
            if array.dtype != mat2.dtype:
                raise unlike_dtypes(name, array, mat2)
    if beta == 1 == alpha and _is_bias(self, mat1, mat2):
        return product(mat1, mat2, None, self)
    return _added_once(_mm, self, mat1, mat2, beta, alpha)


def _is_bias(self, mat1, mat2):
    """Whether a vector is added to each row of a large matrix product."""
    return (
        mat1.size >= SMALL
        and mat1.ndim == 2 == mat2.ndim
        and self.shape == mat2.shape[1:]
        and mat1.shape[1] == mat2.shape[0]
        and mat2.dtype.char in "fd"
        and self.flags.c_contiguous
    )


addmm = op(
    "AddmmBackward0",
    _addmm,
    jvp(
        lambda self_t, mat1_t, mat2_t, mat1, mat2, beta, alpha: _added_tangent(
            w.mm, self_t, (mat1_t, mat2), (mat1, mat2_t), beta, alpha
        )
    ),
    self=lambda grad, beta: times(grad, beta),
    mat1=lambda grad, mat2, mat1_shape, mat1_strides, alpha: times(
        _left(grad, mat2, mat1_shape, mat1_strides), alpha
    ),
    mat2=lambda grad, mat1, mat2_shape, mat2_strides, alpha: times(
        _right(grad, mat1, mat2_shape, mat2_strides), alpha
    ),
)
addmm_ = inplace(addmm)


def _addmv(self, mat, vec, *, beta=1, alpha=1):
    if self.dtype != mat.dtype or mat.dtype != vec.dtype:
        raise unlike_three(self, mat, vec)
    return _added(self, _mv(mat, vec), beta, alpha)


addmv = op(
    "AddmvBackward0",
    _addmv,
    jvp(
        lambda self_t, mat_t, vec_t, mat, vec, beta, alpha: _added_tangent(
            w.mv, self_t, (mat_t, vec), (mat, vec_t), beta, alpha
        )
    ),
    self=lambda grad, beta: times(grad, beta),
    mat=lambda grad, vec, alpha: times(w.unsqueeze(grad, 1) * vec, alpha),
    vec=lambda grad, mat, alpha: times(w.mv(w.t(mat), grad), alpha),
)
addmv_ = inplace(addmv, memory=Memory(repeated="", free=("mat", "vec")))


def _baddbmm(self, batch1, batch2, *, beta=1, alpha=1):
    if self.dtype != batch1.dtype:  # the product checks batch2
        raise RuntimeError(
            f"Input dtypes must be the same, got: input {c_name(self)}, batch1: {c_name(batch1)}, "
            f"batch2: {c_name(batch2)}"
        )
    return _added_once(_bmm, self, batch1, batch2, beta, alpha)


baddbmm = op(
    "BaddbmmBackward0",
    _baddbmm,
    jvp(
        lambda self_t, batch1_t, batch2_t, batch1, batch2, beta, alpha: _added_tangent(
            w.bmm, self_t, (batch1_t, batch2), (batch1, batch2_t), beta, alpha
        )
    ),
    self=lambda grad, beta: times(grad, beta),
    batch1=lambda grad, batch2, alpha: times(w.bmm(grad, w.transpose(batch2, 1, 2)), alpha),
    batch2=lambda grad, batch1, alpha: times(w.bmm(w.transpose(batch1, 1, 2), grad), alpha),
)
baddbmm_ = inplace(baddbmm, memory=Memory(repeated="", free=("batch1", "batch2")))


def _addr(self, vec1, vec2, *, beta=1, alpha=1):
    if vec1.ndim != 1 or vec2.ndim != 1:
        nr, vec = (1, vec1) if vec1.ndim != 1 else (2, vec2)
        raise RuntimeError(f"addr: Expected 1-D argument vec{nr}, but got {vec.ndim}-D")
    return _added(self, vec1[:, None] * vec2, beta, alpha)


addr = op(
    "AddrBackward0",
    _addr,
    jvp(
        lambda self_t, vec1_t, vec2_t, vec1, vec2, beta, alpha: _added_tangent(
            _outer, self_t, (vec1_t, vec2), (vec1, vec2_t), beta, alpha
        )
    ),
    AS_OPERANDS,
    self=lambda grad, beta: times(grad, beta),
    vec1=lambda grad, vec2, alpha: times(w.mv(grad, vec2), alpha),
    vec2=lambda grad, vec1, alpha: times(w.mv(w.t(grad), vec1), alpha),
)
addr_ = inplace(addr)
trace = op(
    "TraceBackward0",
    lambda self: _trace(self),
    LINEAR,
    self=lambda grad, self_shape: _on_diagonal(grad, self_shape),
)


def _trace(self):
    if self.ndim != 2:
        raise RuntimeError("trace: expected a matrix, but got tensor with dim " + str(self.ndim))
    return np.trace(self, dtype=np.int64 if self.dtype.kind in "biu" else self.dtype)


def _on_diagonal(grad, shape):
    """The gradient of each diagonal element, zeros elsewhere."""
    count = min(shape)
    line = grad * np.ones(count, grad.dtype) if grad.__class__ is np.ndarray else grad.expand(count)
    return w.diagonal_backward(line, shape, 0, 0, 1)


family(globals())
