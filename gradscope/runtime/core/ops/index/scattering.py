"""Writes along one dim by an index: scatter, index_add, index_copy, index_fill."""

from __future__ import annotations

import numpy as np

from gradscope.runtime.core.calls.declare import (
    ELEMENTWISE,
    INTERNAL,
    LINEAR,
    UNKNOWN,
    Memory,
    family,
    inplace,
    op,
    overload,
    tensors,
    w,
)
from gradscope.runtime.core.dtypes.names import scalar_name
from gradscope.runtime.core.kernels.arrays import scatter as kernels
from gradscope.runtime.core.ops.in_formulas import no_derivative, times
from gradscope.runtime.core.ops.index.gathering import bounded, reach
from gradscope.runtime.core.rows.offered import both, method
from gradscope.runtime.core.rows.traits import AS_THE_FIRST, ROW_BY_ROW
from gradscope.runtime.core.tensors.dims import text, wrapped
from gradscope.runtime.core.tensors.making.elements import element
from gradscope.runtime.core.tensors.tensor.tensor import Tensor


def checked(self, dim, index, src, name):
    """The non-negative dim, after checking the arguments."""
    if index.dtype.char not in "lqi":
        raise RuntimeError(f"{name}(): Expected dtype int32/int64 for index")
    if src is not None and src.dtype != self.dtype:
        raise RuntimeError("scatter(): Expected self.dtype to be equal to src.dtype")
    dim = wrapped(dim, self.ndim)
    if index.size == 0:
        return dim
    if max(index.ndim, 1) != max(self.ndim, 1):
        raise RuntimeError("Index tensor must have the same number of dimensions as self tensor")
    if src is not None and max(src.ndim, 1) != max(self.ndim, 1):
        raise RuntimeError("Index tensor must have the same number of dimensions as src tensor")
    _check_sizes(self, dim, index, src)
    bounded(index, dim, self.shape[dim] if self.ndim else 1)
    return dim


def _check_sizes(self, dim, index, src):
    within = all(
        d == dim or size <= there
        for d, (size, there) in enumerate(zip(index.shape, self.shape, strict=False))
    )
    covered = src is None or all(
        size <= there for size, there in zip(index.shape, src.shape, strict=False)
    )
    if within and covered:
        return
    more = "" if src is None else f" and to be no larger size than src {text(src.shape)}"
    raise RuntimeError(
        f"Expected index {text(index.shape)} to be no larger than self {text(self.shape)} apart "
        f"from dimension {dim}{more}"
    )


def lifted(self, index, src):
    """Tensors without dims as tensors of one dim, on the same memory."""
    return (
        self.reshape(-1) if not self.ndim else self,
        index.reshape(-1) if not index.ndim else index,
        src.reshape(-1) if src is not None and not src.ndim else src,
    )


def _scatter_in(self, dim, index, src):
    dim = checked(self, dim, index, src, "scatter")
    target, index, src = lifted(self, index, src)
    if index.size:
        target[reach(index, dim)] = src[tuple(map(slice, index.shape))]
    return self


def _scatter_value_in(self, dim, index, value):
    dim = checked(self, dim, index, None, "scatter")
    target, index, _ = lifted(self, index, None)
    if index.size:
        target[reach(index, dim)] = element(value, self.dtype)
    return self


def _scatter_add_in(self, dim, index, src):
    dim = checked(self, dim, index, src, "scatter_add")
    target, index, src = lifted(self, index, src)
    if index.size:
        kernels.scatter_add(target, dim, index, src)
    return self


scatter__src = op(
    "ScatterBackward0",
    lambda self, dim, index, src: _scatter_in(np.array(self, order="C"), dim, index, src),
    LINEAR,
    tensors("index"),
    ROW_BY_ROW,
    self=lambda grad, dim, index: w._scattered_zero(grad, dim, index),
    src=lambda grad, dim, index: w.gather(grad, dim, index),
)
scatter__value = op(
    "ScatterBackward1",
    lambda self, dim, index, value: _scatter_value_in(np.array(self, order="C"), dim, index, value),
    ELEMENTWISE,
    tensors("index"),
    ROW_BY_ROW,
    self=lambda grad, dim, index: w._scattered_zero(grad, dim, index),
)
_scattered_zero = op(
    "ScatterBackward1",
    lambda self, dim, index: _scatter_value_in(np.array(self, order="C"), dim, index, 0),
    LINEAR,
    INTERNAL,
    tensors("index"),
    self=lambda grad, dim, index: w._scattered_zero(grad, dim, index),
)
scatter_add = op(
    "ScatterAddBackward0",
    lambda self, dim, index, src: _scatter_add_in(np.array(self, order="C"), dim, index, src),
    LINEAR,
    tensors("index"),
    self=lambda grad: grad,
    src=lambda grad, dim, index: w.gather(grad, dim, index),
)
APART = Memory(free=("self",), apart=("index", "src", "source"))
scatter___src = inplace(scatter__src, _scatter_in, APART)
scatter___value = inplace(scatter__value, _scatter_value_in, APART)
scatter_add_ = inplace(scatter_add, _scatter_add_in, APART)

_REDUCED = {"add": np.add, "multiply": np.multiply}


def _scatter_reduced(self, dim, index, src, reduce):
    dim = checked(self, dim, index, src, "scatter")
    made = self.copy()
    target, index, src = lifted(made, index, src)
    values = src[tuple(map(slice, index.shape))] if src.ndim else src
    _REDUCED[reduce].at(target, reach(index, dim), values)
    return made


scatter__reduce = op(
    "NotImplemented",
    _scatter_reduced,
    UNKNOWN,
    tensors("index", "src"),
    self=no_derivative("scatter"),
)


def _index_add_in(self, dim, index, source, alpha=1, source_dim=None):
    dim = check_rows(self, dim, index, source, "index_add_")
    values = source if alpha == 1 else source * np.asarray(alpha).astype(source.dtype)
    if index.size:
        target = self.reshape(-1) if not self.ndim else self
        bounded(index, dim, target.shape[dim])
        kernels.index_add(
            target, dim, index.reshape(-1), values.reshape(-1) if not self.ndim else values
        )
    return self


def check_rows(self, dim, index, source, name):
    dim = wrapped(dim, self.ndim)
    if index.dtype.char not in "lqi":
        raise RuntimeError(f"{name}(): Expected dtype int32/int64 for index but got: Float")
    if self.dtype != source.dtype:
        kinds = [scalar_name(a) for a in (self, source)]
        raise RuntimeError(
            f"{name}(): self ({kinds[0]}) and source ({kinds[1]}) must have the same scalar type"
        )
    if index.ndim > 1:
        raise IndexError(f"{name}(): Index is supposed to be a vector, but got dim: {index.ndim}")
    rows = source.shape[dim] if source.ndim else 1
    if index.size != rows:
        raise RuntimeError(
            f"{name}(): Number of indices ({index.size}) should be equal to source.size(dim): "
            f"({rows}), for dim: {dim}"
        )
    if _without(self.shape, dim) != _without(source.shape, dim):
        raise RuntimeError(
            "source tensor shape must match self tensor shape, excluding the specified dimension. "
            f"Got self.shape = {text(self.shape)} source.shape = {text(source.shape)}"
        )
    return dim


def _without(shape, dim):
    return (*shape[:dim], *shape[dim + 1 :])


def _rows_of(grad, dim, index, source_dim):
    """The part of the gradient that belongs to the source."""
    if source_dim:
        return w.index_select(grad, dim, index)
    return w.index_select(grad, dim, index.squeeze() if index.ndim else index).reshape(())


index_add__default = op(
    "IndexAddBackward0",
    lambda self, dim, index, source, alpha=1, source_dim=None: _index_add_in(
        np.array(self, order="C"), dim, index, source, alpha
    ),
    LINEAR,
    tensors("index"),
    self=lambda grad: grad,
    source=lambda grad, dim, index, source, alpha, source_dim: times(
        _rows_of(grad, dim, index, source_dim), alpha
    ),
)
index_add___default = inplace(index_add__default, _index_add_in, APART)


def _index_copy_in(self, dim, index, source, source_dim=None):
    dim = check_rows(self, dim, index, source, "index_copy_")
    if index.size:
        target = self.reshape(-1) if not self.ndim else self
        if not (index.min() >= 0 and index.max() < target.shape[dim]):
            bad = index.max() if index.min() >= 0 else index.min()
            raise IndexError(
                f"index_copy_(): index {bad} is out of bounds for dimension {dim} with size "
                f"{target.shape[dim]}"
            )
        target[(slice(None),) * dim + (index.reshape(-1),)] = source
    return self


def _index_fill_in(self, dim, index, value):
    dim = wrapped(dim, self.ndim)
    if index.dtype.char not in "lq":
        raise IndexError("index_fill_(): Expected dtype int64 for index.")
    if index.ndim > 1:
        raise IndexError("Index has to be a vector/scalar")
    target = self.reshape(-1) if not self.ndim else self
    size = target.shape[dim]
    if index.size and not (index.min() >= -size and index.max() < size):
        raise IndexError(
            f"index {index.max() if index.max() >= size else index.min()} is out of bounds for "
            f"dimension {dim} with size {size}"
        )
    target[(slice(None),) * dim + (index.reshape(-1),)] = value
    return self


def _index_fill_number_in(self, dim, index, value):
    if isinstance(value, complex) and self.dtype.kind != "c":
        raise RuntimeError(
            "index_fill_(): Converting complex Scalar to non-complex type is not supported"
        )
    return _index_fill_in(self, dim, index, element(value, self.dtype))


index_copy__default = op(
    "IndexCopyBackward0",
    lambda self, dim, index, source, source_dim=None: _index_copy_in(
        np.array(self, order="C"), dim, index, source
    ),
    LINEAR,
    tensors("index"),
    self=lambda grad, dim, index: w._index_cleared(grad, dim, index),
    source=lambda grad, dim, index, source, source_dim: _rows_of(grad, dim, index, source_dim),
)
index_copy___default = inplace(index_copy__default, _index_copy_in, APART)
_index_cleared = op(
    "IndexFillBackward0",
    lambda self, dim, index: _index_fill_in(np.array(self, order="C"), dim, index, 0),
    LINEAR,
    INTERNAL,
    tensors("index"),
    self=lambda grad, dim, index: w._index_cleared(grad, dim, index),
)
index_fill__scalar = op(
    "IndexFillBackward0",
    lambda self, dim, index, value: _index_fill_number_in(
        np.array(self, order="C"), dim, index, value
    ),
    ELEMENTWISE,
    tensors("index"),
    overload("int_Scalar"),
    AS_THE_FIRST,
    self=lambda grad, dim, index: w._index_cleared(grad, dim, index),
)
index_fill__tensor = op(
    "IndexFillBackward1",
    lambda self, dim, index, value: _index_fill_in(np.array(self, order="C"), dim, index, value),
    LINEAR,
    tensors("index"),
    overload("int_Tensor"),
    AS_THE_FIRST,
    self=lambda grad, dim, index: w._index_cleared(grad, dim, index),
    value=lambda grad, dim, index: w._picked_sum(grad, dim, index),
)
_FILLED = Memory(repeated="index_fill_", free=("self", "value"), apart=("index",))
index_fill___scalar = inplace(index_fill__scalar, _index_fill_number_in, _FILLED)
index_fill___tensor = inplace(index_fill__tensor, _index_fill_in, _FILLED)
_picked_sum = op(
    "SumBackward0",
    lambda grad, dim, index: grad.take(np.unique(index), dim if grad.ndim else None).sum(),
    LINEAR,
    INTERNAL,
    tensors("index"),
    grad=lambda grad, grad_shape, dim, index: w._index_spread(grad, grad_shape, dim, index),
)
_index_spread = op(
    "IndexFillBackward1",
    lambda value, shape, dim, index: _index_fill_in(
        np.zeros(shape, value.dtype), dim, index, value
    ),
    LINEAR,
    INTERNAL,
    tensors("index"),
    value=lambda grad, dim, index: w._picked_sum(grad, dim, index),
)
family(globals())


def _scattered(rows, self, dim, index, src, value):
    src = value if src is None else src
    if isinstance(src, Tensor):
        return rows[0](self, dim, index, src)
    return rows[1](self, dim, index, src)


@both
def scatter(input, dim, index, src=None, *, value=None, reduce=None):
    """Write elements of `src`, or a number, at the indices."""
    if reduce is None:
        return _scattered((scatter__src, scatter__value), input, dim, index, src, value)
    source = value if src is None else src
    if not isinstance(source, Tensor):
        source = input.new_full(index.shape, source)
    return scatter__reduce(input, dim, index, source, reduce)


@method
def scatter_(self, dim, index, src=None, *, value=None, reduce=None):
    if reduce is not None:
        return self.copy_(scatter(self, dim, index, src, value=value, reduce=reduce))
    return _scattered((scatter___src, scatter___value), self, dim, index, src, value)


@both
def index_add(input, dim, index, source, *, alpha=1):
    """Add rows of `source` to the indexed rows."""
    return index_add__default(input, dim, index, source, alpha, source.dim())


@method
def index_add_(self, dim, index, source, *, alpha=1):
    return index_add___default(self, dim, index, source, alpha, source.dim())


@both
def index_copy(input, dim, index, source):
    return index_copy__default(input, dim, index, source, source.dim())


@method
def index_copy_(self, dim, index, source):
    return index_copy___default(self, dim, index, source, source.dim())


@both
def index_fill(input, dim, index, value):
    row = index_fill__tensor if isinstance(value, Tensor) else index_fill__scalar
    return row(input, dim, index, value)


@method
def index_fill_(self, dim, index, value):
    row = index_fill___tensor if isinstance(value, Tensor) else index_fill___scalar
    return row(self, dim, index, value)
