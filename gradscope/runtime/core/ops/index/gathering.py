"""Elements picked along one dim by an index: index_select, gather, take, masked_select."""

from __future__ import annotations

from math import prod

import numpy as np

from gradscope.runtime.core.calls.declare import (
    INTERNAL,
    LINEAR,
    Memory,
    family,
    inplace,
    op,
    tensors,
    w,
)
from gradscope.runtime.core.dtypes.names import scalar_name
from gradscope.runtime.core.kernels.arrays import scatter
from gradscope.runtime.core.ops.in_formulas import on_arrays
from gradscope.runtime.core.ops.index.indexing import CHEAPLY_COPIED
from gradscope.runtime.core.ops.shape.broadcasting import broadcast_shape
from gradscope.runtime.core.ops.shape.slicing import FULL
from gradscope.runtime.core.rows.offered import both
from gradscope.runtime.core.rows.traits import ROW_BY_ROW
from gradscope.runtime.core.tensors.dims import text, wrapped
from gradscope.runtime.core.tensors.placement import wrapped_on
from gradscope.runtime.core.tensors.wrapping import wrap


def bounded(index, dim, size):
    """Refuse an index that NumPy would count from the end."""
    if index.size:
        for extreme in (index.max(), index.min()):
            if not 0 <= extreme < size:
                raise RuntimeError(
                    f"index {extreme} is out of bounds for dimension {dim} with size {size}"
                )


def whole(index, name):
    if index.dtype.char not in "lqi":
        raise RuntimeError(f"{name}(): Expected dtype int32/int64 for index")


def _index_select(self, dim, index):
    if index.ndim > 1:
        raise IndexError("index_select(): Index is supposed to be a vector")
    if index.dtype.char not in "lqi":
        raise RuntimeError("index_select(): Expected dtype int32 or int64 for index")
    dim = wrapped(dim, self.ndim)
    size = self.shape[dim] if self.ndim else 1
    if index.size and not (index.min() >= 0 and index.max() < size):
        bad = index.reshape(-1)[(index.reshape(-1) < 0) | (index.reshape(-1) >= size)][0]
        raise RuntimeError(
            f"INDICES element is out of DATA bounds, id={bad} axis_dim={size}"
            if self.ndim
            else "index_select(): self indexing axis dim should be positive"
        )
    if not self.ndim:
        return self.copy()
    if self.flags.c_contiguous or self.size <= CHEAPLY_COPIED:
        return self.take(index.reshape(-1), dim)
    # `take` would copy all of it: an expanded array may be larger than memory.
    return np.asarray(self[(FULL,) * dim + (index.reshape(-1),)], order="C")


def _index_unselected(grad, self_shape, dim, index):
    if not on_arrays(grad):
        return grad.new_zeros(self_shape).index_add(dim, index, grad)
    made = np.zeros(self_shape, grad.dtype)
    if not self_shape:
        return grad.reshape(())
    scatter.index_add(made, dim, index.reshape(-1), grad)
    return made


index_select = op(
    "IndexSelectBackward0",
    _index_select,
    LINEAR,
    tensors("index"),
    self=lambda grad, self_shape, dim, index: _index_unselected(grad, self_shape, dim, index),
)


def _gather(self, dim, index, *, sparse_grad=False):
    dim = wrapped(dim, self.ndim)
    if not index.size:
        return np.empty(index.shape, self.dtype)
    whole(index, "gather")
    if not self.ndim or not index.ndim:
        return _gather_numbers(self, index)
    if self.ndim != index.ndim:
        raise RuntimeError("Index tensor must have the same number of dimensions as input tensor")
    for d, (size, there) in enumerate(zip(index.shape, self.shape, strict=True)):
        if d != dim and size > there:
            raise RuntimeError(
                f"Size does not match at dimension {d} expected index {text(index.shape)} to be no "
                f"larger than self {text(self.shape)} apart from dimension {dim}"
            )
    bounded(index, dim, self.shape[dim])
    return self[reach(index, dim)]


def _gather_numbers(self, index):
    """`gather` where input or index has no dims, which counts as one dim."""
    if max(self.ndim, index.ndim) > 1:
        raise RuntimeError("Index tensor must have the same number of dimensions as input tensor")
    flat = self.reshape(-1)
    bounded(index, 0, flat.size)
    return flat[index]


def reach(index, dim):
    """A NumPy index for the elements that an index along one dim selects."""
    ones = (1,) * index.ndim
    return tuple(
        [
            index if d == dim else np.arange(size).reshape((*ones[:d], size, *ones[d + 1 :]))
            for d, size in enumerate(index.shape)
        ]
    )


def _gather_backward(grad, self_sizes, dim, index):
    made = np.zeros(self_sizes, grad.dtype)
    if not index.size:
        return made
    if not index.ndim:
        grad, index = grad.reshape(1), index.reshape(1)
    scatter.scatter_add(made, dim, index, grad)
    return made


gather = op(
    "GatherBackward0",
    _gather,
    LINEAR,
    tensors("index"),
    ROW_BY_ROW,
    self=lambda grad, self, dim, index, sparse_grad: w.gather_backward(
        grad, tuple(self.shape), dim, index
    ),
)
gather_backward = op(
    "ScatterAddBackward0",
    _gather_backward,
    LINEAR,
    INTERNAL,
    tensors("index"),
    grad=lambda grad, dim, index: w.gather(grad, dim, index),
)


def _take(self, index):
    if index.dtype.char not in "lqi":
        raise RuntimeError("take(): Expected a long tensor for index, but got Float")
    if index.size:
        for extreme in (index.max(), index.min()):
            if not -self.size <= extreme < self.size:
                raise IndexError(
                    f"out of range: tried to access index {extreme} on a tensor of "
                    f"{self.size} elements."
                )
    return self.reshape(-1)[index]


def _take_backward(grad, self_sizes, index):
    made = np.zeros(self_sizes, grad.dtype)
    scatter.put_add(made, np.where(index < 0, index + made.size, index), np.asarray(grad))
    return made


take = op(
    "TakeBackward0",
    _take,
    LINEAR,
    tensors("index"),
    self=lambda grad, self, index: w.take_backward(grad, tuple(self.shape), index),
)
take_backward = op(
    "PutBackward0",
    _take_backward,
    LINEAR,
    INTERNAL,
    tensors("index"),
    grad=lambda grad, index: w.take(grad, index),
)


def masked(self, mask, name):
    """A tensor and its mask, broadcast."""
    if mask.dtype.kind != "b" and mask.dtype != np.uint8:
        raise RuntimeError(f"{name}: expected BoolTensor for mask")
    shape = self.shape if self.shape == mask.shape else broadcast_shape([mask.shape, self.shape])
    return np.broadcast_to(self, shape), np.broadcast_to(mask, shape).astype(np.bool_, copy=False)


def _masked_select(self, mask):
    values, chosen = masked(self, mask, "masked_select")
    return values[chosen]


def _masked_select_backward(grad, self_sizes, mask):
    shape = np.broadcast_shapes(self_sizes, mask.shape)
    made = np.zeros(shape, grad.dtype)
    made[np.broadcast_to(mask, shape)] = grad
    return made


masked_select = op(
    "MaskedSelectBackward0",
    _masked_select,
    LINEAR,
    tensors("mask"),
    self=lambda grad, self, mask: w.masked_select_backward(grad, tuple(self.shape), mask),
)
masked_select_backward = op(
    "MaskedScatterBackward0",
    _masked_select_backward,
    LINEAR,
    INTERNAL,
    tensors("mask"),
    grad=lambda grad, mask: w.masked_select(grad, mask),
)


def _masked_scatter(self, mask, source):
    if mask.dtype.kind != "b":
        kind = scalar_name(mask)
        raise RuntimeError(
            f"masked_scatter_ only supports boolean masks, but got mask with dtype {kind}"
        )
    if self.dtype != source.dtype:
        kinds = [scalar_name(a) for a in (self, source)]
        raise RuntimeError(
            "masked_scatter: expected self and source to have same dtypes but got"
            f"{' and '.join(kinds)}"
        )
    values, chosen = masked(self, mask, "masked_scatter")
    count = int(np.count_nonzero(chosen))
    if count > source.size:
        raise RuntimeError("Number of elements of source < number of ones in mask")
    made = values.copy()
    made[chosen] = source.reshape(-1)[:count]
    return made


def _source_part(grad, sizes, mask):
    made = np.zeros(prod(sizes), grad.dtype)
    found = grad[np.broadcast_to(mask, grad.shape)]
    made[: found.size] = found
    return made.reshape(sizes)


def _outside(grad, mask):
    return np.where(mask, np.zeros((), grad.dtype), grad)


masked_scatter = op(
    "MaskedScatterBackward0",
    _masked_scatter,
    LINEAR,
    tensors("mask"),
    self=lambda grad, mask: w._unmasked(grad, mask),
    source=lambda grad, source_shape, mask: w._masked_source(grad, source_shape, mask),
)
masked_scatter_ = inplace(masked_scatter, memory=Memory(free=("source",)))
_unmasked = op(
    "MaskedFillBackward0",
    _outside,
    LINEAR,
    INTERNAL,
    tensors("mask"),
    grad=lambda grad, mask: w._unmasked(grad, mask),
)
_masked_source = op(
    "MaskedScatterBackwardBackward0",
    _source_part,
    LINEAR,
    INTERNAL,
    tensors("mask"),
    grad=lambda grad, grad_shape, mask: w.masked_scatter(
        zeros_of(grad, grad_shape), mask, grad.reshape(-1)
    ),
)
family(globals())


def zeros_of(grad, shape):
    """Zeros in a gradient's dtype, as an array or a tensor like the gradient."""
    if on_arrays(grad):
        return np.zeros(shape, grad.dtype)
    return wrap(np.zeros(shape, grad._array.dtype))


def _counted(indices, size):
    """Negative indices counted from the end."""
    array = indices._array
    return wrapped_on(np.where(array < 0, array + size, array), indices.device)


@both
def take_along_dim(input, indices, dim=None):
    """gather, with index and input broadcast against each other."""
    if dim is None:
        return gather(input.view(-1), 0, indices.reshape(-1))
    dim = wrapped(dim, input.dim())
    if input.dim() != indices.dim():
        raise RuntimeError(
            "torch.take_along_dim(): input and indices should have the same number of dimensions, "
            f"but got {input.dim()} dimensions for input, and {indices.dim()} dimensions for "
            "indices"
        )
    whole(indices._array, "torch.take_along_dim")

    def beside(shape, other):
        return (*shape[:dim], other[dim], *shape[dim + 1 :])

    shapes = tuple(input._array.shape), tuple(indices._array.shape)
    common = broadcast_shape([beside(shapes[1], shapes[0]), shapes[0]])
    places = broadcast_shape([beside(shapes[0], shapes[1]), shapes[1]])
    size = common[dim]
    array = indices._array
    if array.size and array.min() < 0:
        indices = _counted(indices, size)
    return gather(input.expand(common), dim, indices.expand(places))
