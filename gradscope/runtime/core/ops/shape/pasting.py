"""Replacing a view in a copy: select_scatter and others, put; and rot90, renorm."""

from __future__ import annotations

import numpy as np

from gradscope.runtime.core.calls.declare import (
    BY_HAND,
    INTERNAL,
    LINEAR,
    TRANSPOSED,
    family,
    hidden,
    inplace,
    op,
    tensors,
    w,
)
from gradscope.runtime.core.dtypes.names import scalar_name
from gradscope.runtime.core.kernels.arrays import scatter
from gradscope.runtime.core.kernels.support import HALVES
from gradscope.runtime.core.ops.in_formulas import beside, is_complex
from gradscope.runtime.core.ops.index.gathering import zeros_of
from gradscope.runtime.core.ops.reduce.norms import norm_slope
from gradscope.runtime.core.ops.shape.slicing import (
    as_strided__default as as_strided,
    diagonal,
    select,
    slice__default as slice_of,
)
from gradscope.runtime.core.rows.offered import both, function
from gradscope.runtime.core.tensors.dims import text, wrapped
from gradscope.runtime.core.tensors.memory.storage import elements
from gradscope.runtime.core.tensors.placement import wrapped_on


def _pasted(view):
    """A copy with the selected view replaced."""

    def kernel(self, src, *options):
        made = self.copy(order="K")
        window = view.op.kernel(made, *options)
        if window.shape != src.shape:
            raise RuntimeError(
                "expected src to have a size equal to the slice of self. src size = "
                f"{text(src.shape)}, slice size = {text(window.shape)}"
            )
        window.flags.writeable = True
        window[...] = src
        return made

    return kernel


_select = _pasted(select)
_slice = _pasted(slice_of)
_diagonal = _pasted(diagonal)
HIDDEN = hidden("src_shape")

select_scatter = op(
    "SelectScatterBackward0",
    lambda self, src, dim, index: _select(self, src, dim, index),
    LINEAR,
    HIDDEN,
    self=lambda grad, src_shape, dim, index: w.select_scatter(
        grad, zeros_of(grad, src_shape), dim, index
    ),
    src=lambda grad, dim, index: w.select(grad, dim, index),
)
slice_scatter = op(
    "SliceScatterBackward0",
    lambda self, src, dim=0, start=None, end=None, step=1: _slice(self, src, dim, start, end, step),
    LINEAR,
    HIDDEN,
    self=lambda grad, src_shape, dim, start, end, step: w.slice_scatter(
        grad, zeros_of(grad, src_shape), dim, start, end, step
    ),
    src=lambda grad, dim, start, end, step: w.slice(grad, dim, start, end, step),
)
diagonal_scatter = op(
    "DiagonalScatterBackward0",
    lambda self, src, offset=0, dim1=0, dim2=1: _diagonal(self, src, offset, dim1, dim2),
    LINEAR,
    HIDDEN,
    self=lambda grad, src_shape, offset, dim1, dim2: w.diagonal_scatter(
        grad, zeros_of(grad, src_shape), offset, dim1, dim2
    ),
    src=lambda grad, offset, dim1, dim2: w.diagonal(grad, offset, dim1, dim2),
)


def _strided_scatter(self, src, size, stride, storage_offset=None):
    steps = elements(self)
    reach = 1 + sum((n - 1) * step for n, step in zip(self.shape, steps, strict=True) if n)
    memory = np.zeros(reach, self.dtype)
    item = self.itemsize
    made = np.ndarray(self.shape, self.dtype, memory, 0, tuple(step * item for step in steps))
    made[...] = self
    window = as_strided.op.kernel(memory, tuple(size), tuple(stride), storage_offset or 0)
    if window.shape != src.shape:
        raise RuntimeError(
            "expected src to have a size equal to the slice of self. src size = "
            f"{text(src.shape)}, slice size = {text(window.shape)}"
        )
    window[...] = src
    return made


def _within(grad, *window):
    """PyTorch's gradient of the overwritten tensor, which is kept inside the view."""
    kept = w.contiguous_window(grad, *window)
    return w.as_strided_scatter(zeros_of(grad, tuple(grad.shape)), kept, *window)


as_strided_scatter = op(
    "AsStridedScatterBackward0",
    _strided_scatter,
    LINEAR,
    self=lambda grad, size, stride, storage_offset: _within(grad, size, stride, storage_offset),
    src=lambda grad, size, stride, storage_offset: w.contiguous_window(
        grad, size, stride, storage_offset
    ),
)
contiguous_window = op(
    "AsStridedBackward0",
    lambda grad, size, stride, storage_offset=None: as_strided.op.kernel(
        np.ascontiguousarray(grad), size, stride, storage_offset
    ).copy(),
    LINEAR,
    INTERNAL,
    grad=lambda grad, grad_shape, size, stride, storage_offset: w.as_strided_scatter(
        zeros_of(grad, grad_shape), grad, size, stride, storage_offset
    ),
)


def _put(self, index, source, accumulate=False):
    if index.dtype != np.int64:
        kind = scalar_name(index)
        raise RuntimeError(f"put_(): Expected a long tensor for index, but got {kind}")
    if self.dtype != source.dtype:
        kinds = [scalar_name(a) for a in (self, source)]
        raise RuntimeError(
            "put_(): self and source expected to have the same dtype, but got self.dtype = "
            f"{kinds[0]} and source.dtype = {kinds[1]}"
        )
    if index.size != source.size:
        raise IndexError(
            "put_(): Expected source and index to have the same number of elements, but got "
            f"source.numel() = {source.size}, index.numel() = {index.size}"
        )
    made = np.array(self)
    if not index.size:
        return made
    for extreme in (index.max(), index.min()):
        if not -self.size <= extreme < self.size:
            raise IndexError(
                f"out of range: tried to access index {extreme} on a tensor of {self.size} "
                "elements."
            )
    places = np.where(index < 0, index + self.size, index).reshape(-1)
    flat, values = made.reshape(-1), np.ascontiguousarray(source).reshape(-1)
    if accumulate:
        scatter.put_add(flat, places, values)
    else:
        flat[places] = values
    return flat.reshape(self.shape)


def _put_kept(grad, index, source, accumulate):
    return grad if accumulate else w.put(grad, index, zeros_of(grad, tuple(source.shape)), False)


put = op(
    "PutBackward0",
    _put,
    LINEAR,
    tensors("index"),
    self=_put_kept,
    source=lambda grad, index, source: w.take(grad, index).reshape(tuple(source.shape)),
)
put_ = inplace(put)


def _rot90(self, k=1, dims=(0, 1)):
    if len(dims) != 2:
        raise RuntimeError(f"expected total rotation dims == 2, but got dims = {len(dims)}")
    if self.ndim < 2:
        raise RuntimeError(f"expected total dims >= 2, but got total dims = {self.ndim}")
    if dims[0] == dims[1] or abs(dims[0] - dims[1]) == self.ndim:
        raise RuntimeError(
            f"expected rotation dims to be different, but got dim0 = {dims[0]} and dim1 = {dims[1]}"
        )
    axes = wrapped(dims[0], self.ndim), wrapped(dims[1], self.ndim)
    return np.ascontiguousarray(np.rot90(self, k, axes))


rot90__default = op(
    "Rot90Backward0",
    _rot90,
    LINEAR,
    self=lambda grad, k, dims: w.rot90(grad, -k, dims),
)


def _others(ndim, dim):
    return tuple(d for d in range(ndim) if d != wrapped(dim, ndim))


def _renorm(self, p, dim, maxnorm):
    if p <= 0:
        raise RuntimeError("renorm: non-positive-norm not supported")
    if self.ndim < 2:
        raise RuntimeError(f"renorm: input needs at least 2 dimensions, got {self.ndim} dimensions")
    if maxnorm < 0:
        raise RuntimeError(f"renorm: expected maxnorm to be >= 0 but got {maxnorm:g}")
    if self.dtype.kind in "biu":
        kind = scalar_name(self)
        raise RuntimeError(
            f"linalg.vector_norm: Expected a floating point or complex tensor as input. Got {kind}"
        )
    wide = self.astype(np.float32) if self.dtype in HALVES else self
    norm = w.linalg_vector_norm(wide, p, _others(self.ndim, dim), True)
    factor = np.where(norm > maxnorm, maxnorm / (norm + norm.dtype.type(1e-7)), 1)
    return (wide * factor.astype(wide.real.dtype)).astype(self.dtype)


def _renorm_slope(grad, self, p, dim, maxnorm):
    """The gradient of scaling a row down: it loses the part along the norm's gradient."""
    dims = _others(self.ndim, dim)
    norm = w.linalg_vector_norm(self, p, dims, True)
    along = self.conj() * grad if is_complex(self) else self * grad
    along = along.sum(dims, True) if hasattr(along, "_array") else along.sum(dims, keepdims=True)
    along = along.real if is_complex(self) else along
    turned = norm_slope(along, self, norm, p, dims, True)
    inverse = w.reciprocal(norm + beside(norm, 1e-7))
    scaled = (grad - inverse * turned) * (inverse * beside(norm, maxnorm))
    return w.where(norm > maxnorm, scaled, grad)


renorm = op("RenormBackward0", _renorm, TRANSPOSED, BY_HAND, self=_renorm_slope)
renorm_ = inplace(renorm)
family(globals())


@both
def rot90(input, k=1, dims=(0, 1)):
    """Rotate by 90 degrees in the plane of two dims."""
    return rot90__default(input, k, tuple(dims))


@function
def unravel_index(indices, shape):
    """The coordinates of flat indices in a tensor of this shape."""
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    found = []
    places = indices._array.astype(np.int64)
    for size in reversed(sizes):
        found.append(places % size)
        places = places // size
    return tuple(wrapped_on(np.asarray(f), indices.device) for f in reversed(found))
