"""Views of some elements: select, slice, diagonal, unfold, as_strided, and their gradients."""

from __future__ import annotations

import numpy as np

from gradscope.runtime.core.calls.declare import (
    BY_HAND,
    IN_STORAGE,
    INTERNAL,
    LINEAR,
    family,
    hidden,
    op,
    view,
    w,
)
from gradscope.runtime.core.rows.offered import both, method
from gradscope.runtime.core.tensors.dims import text, wrapped
from gradscope.runtime.core.tensors.memory.storage import Storage, elements, offset_of, strided
from gradscope.runtime.core.tensors.tensor.tensor import Tensor

FULL = slice(None)


def _select(self, dim, index):
    try:
        if dim == 0:
            return self[index, ...]
        if dim < 0:
            dim = wrapped(dim, self.ndim)
        return self[(FULL,) * dim + (index, ...)]
    except IndexError:
        raise IndexError(_unselectable(self, dim, index)) from None


def _unselectable(self, dim, index):
    if self.ndim == 0:
        return "select() cannot be applied to a 0-dim tensor."
    dim = wrapped(dim, self.ndim)
    return (
        f"select(): index {index} out of range for tensor of size {text(self.shape)} at dimension "
        f"{dim}"
    )


def _spread(grad, shape, place):
    """Zeros of this shape with the gradient at this index."""
    made = np.zeros(shape, grad.dtype)
    made[place] = grad
    return made


select = view(
    "SelectBackward0",
    _select,
    self=lambda grad, self_shape, dim, index: w.select_backward(grad, self_shape, dim, index),
)
select_backward = op(
    "SelectBackwardBackward0",
    lambda grad_output, input_sizes, dim, index: _spread(
        grad_output, input_sizes, (FULL,) * (dim % len(input_sizes)) + (index,)
    ),
    LINEAR,
    INTERNAL,
    grad_output=lambda grad, dim, index: w.select(grad, dim, index),
)


def _slice(self, dim=0, start=None, end=None, step=1):
    if self.ndim == 0:
        raise RuntimeError("slice() cannot be applied to a 0-dim tensor.")
    if step <= 0:
        raise RuntimeError("slice step must be positive")
    if dim == 0:
        return self[start:end:step]
    return self[(FULL,) * wrapped(dim, self.ndim) + (slice(start, end, step),)]


slice__default = view(
    "SliceBackward0",
    _slice,
    INTERNAL,
    self=lambda grad, self_shape, dim, start, end, step: w.slice_backward(
        grad, self_shape, dim, start, end, step
    ),
)
slice_backward = op(
    "SliceBackwardBackward0",
    lambda grad_output, input_sizes, dim, start, end, step: _spread(
        grad_output, input_sizes, (FULL,) * (dim % len(input_sizes)) + (slice(start, end, step),)
    ),
    LINEAR,
    BY_HAND,
    INTERNAL,
    grad_output=lambda grad, dim, start, end, step: w.slice(grad, dim, start, end, step),
)


def _diagonal(self, offset=0, dim1=0, dim2=1):
    first, second = wrapped(dim1, self.ndim), wrapped(dim2, self.ndim)
    if first == second:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    made = self.diagonal(offset, first, second)
    if self.flags.writeable:
        made.flags.writeable = True
    return made


def _diagonal_backward(grad_output, input_sizes, offset, dim1, dim2):
    made = np.zeros(input_sizes, grad_output.dtype)
    _diagonal(made, offset, dim1, dim2)[...] = grad_output
    return made


diagonal = view(
    "DiagonalBackward0",
    _diagonal,
    self=lambda grad, self_shape, offset, dim1, dim2: w.diagonal_backward(
        grad, self_shape, offset, dim1, dim2
    ),
)
diagonal_backward = op(
    "DiagonalBackwardBackward0",
    _diagonal_backward,
    LINEAR,
    INTERNAL,
    grad_output=lambda grad, offset, dim1, dim2: w.diagonal(grad, offset, dim1, dim2),
)


def _unfold(self, dimension, size, step):
    dim = wrapped(dimension, self.ndim)
    there = self.shape[dim] if self.ndim else 1
    if size < 0:
        raise RuntimeError(f"size is {size} but must be >= 0")
    if size > there:
        raise RuntimeError(
            f"maximum size for tensor at dimension {dim} is {there} but size is {size}"
        )
    if step <= 0:
        raise RuntimeError(f"step is {step} but must be > 0")
    if not self.ndim:
        return self.reshape(1)[:size]
    step_in_bytes = self.strides[dim]
    shape = (*self.shape[:dim], (there - size) // step + 1, *self.shape[dim + 1 :], size)
    steps = (
        *self.strides[:dim],
        step_in_bytes * step,
        *self.strides[dim + 1 :],
        step_in_bytes,
    )
    return np.lib.stride_tricks.as_strided(self, shape, steps)


def _unfold_backward(grad_in, input_sizes, dim, size, step):
    if not input_sizes:
        return np.asarray(grad_in.sum())
    made = np.zeros(input_sizes, grad_in.dtype)
    at = (FULL,) * wrapped(dim, len(input_sizes))
    for place in range(size):
        window = made[(*at, slice(place, place + step * grad_in.shape[len(at)], step))]
        window += grad_in[..., place]
    return made


unfold = view(
    "UnfoldBackward0",
    _unfold,
    self=lambda grad, self_shape, dimension, size, step: w.unfold_backward(
        grad, self_shape, dimension, size, step
    ),
)
unfold_backward = op(
    "UnfoldBackwardBackward0",
    _unfold_backward,
    LINEAR,
    INTERNAL,
    grad_in=lambda grad, dim, size, step: w.unfold(grad, dim, size, step),
)


def _as_strided(self, size, stride, storage_offset=None, geometry=None):
    storage = Storage(self)
    offset = offset_of(self, storage) if storage_offset is None else storage_offset
    if len(size) != len(stride):
        raise RuntimeError("mismatch in length of strides and shape")
    if any(step < 0 for step in stride):
        raise RuntimeError(
            "as_strided: Negative strides are not supported at the moment, got strides: "
            f"{text(stride)}"
        )
    return strided(storage, self.dtype, size, stride, offset)


def _as_strided_backward(grad, input_sizes, geometry, size, stride, storage_offset):
    """Sum the gradient over elements seen twice, and divide it among overlapping input elements."""
    seen, source, shares = _memory(input_sizes, geometry, size, stride, storage_offset)
    memory = np.zeros(len(shares), grad.dtype)
    np.add.at(memory, seen, grad)
    return memory[source] / shares[source].astype(grad.dtype)


def _as_strided_again(grad, input_sizes, geometry, size, stride, storage_offset):
    """The same operation on gradients of gradients."""
    seen, source, shares = _memory(input_sizes, geometry, size, stride, storage_offset)
    memory = np.zeros(len(shares), grad.dtype)
    np.add.at(memory, source, grad / shares[source].astype(grad.dtype))
    return memory[seen]


def _memory(input_sizes, geometry, size, stride, storage_offset):
    """Memory offsets of the elements of view and input, and the number of inputs at an offset."""
    steps, begin = geometry
    at = begin if storage_offset is None else storage_offset
    seen, source = _places(size, stride, at), _places(input_sizes, steps, begin)
    low = min(seen.min(initial=begin), source.min(initial=begin))
    high = max(seen.max(initial=begin), source.max(initial=begin))
    shares = np.bincount((source - low).reshape(-1), minlength=high - low + 1)
    return seen - low, source - low, np.maximum(shares, 1)


def _places(size, stride, offset):
    """The memory offset of each element of such a view."""
    place = np.full((1,) * len(size), offset, np.int64)
    for dim, (count, step) in enumerate(zip(size, stride, strict=True)):
        place = place + np.arange(count).reshape((-1,) + (1,) * (len(size) - dim - 1)) * step
    return place.reshape(size)


AS_STRIDED = {
    "self": lambda grad, self_shape, geometry, size, stride, storage_offset: w.as_strided_backward(
        grad, self_shape, geometry, size, stride, storage_offset
    )
}
as_strided__default = view(
    "AsStridedBackward0", _as_strided, IN_STORAGE, hidden("self_shape", "geometry"), **AS_STRIDED
)
as_strided_backward = op(
    "AsStridedBackwardBackward0",
    _as_strided_backward,
    LINEAR,
    INTERNAL,
    grad=lambda grad, input_sizes, geometry, size, stride, storage_offset: w.as_strided_again(
        grad, input_sizes, geometry, size, stride, storage_offset
    ),
)
as_strided_again = op(
    "AsStridedBackward0",
    _as_strided_again,
    LINEAR,
    INTERNAL,
    grad=lambda grad, input_sizes, geometry, size, stride, storage_offset: w.as_strided_backward(
        grad, input_sizes, geometry, size, stride, storage_offset
    ),
)
window_backward = op(  # so that the gradient of a view of a base has a derivative
    "AsStridedBackwardBackward0",
    lambda source, base_shape, window: window.spread(source, base_shape),
    LINEAR,
    INTERNAL,
    source=lambda grad, window: (
        window.on_tensor(grad) if hasattr(grad, "_array") else window.on_array(grad)
    ),
)
family(globals())


@both
def as_strided(input, size, stride, storage_offset=None):
    """Any strided view of the tensor's memory."""
    return as_strided__default(input, tuple(size), tuple(stride), storage_offset, geometry(input))


def geometry(tensor):
    """Strides and offset of a tensor in its storage."""
    array = tensor._array
    return elements(array), offset_of(array, tensor.untyped_storage())


@both
def narrow(input, dim, start, length):
    """`length` elements along `dim`, from `start` on."""
    if input.dim() and length < 0:
        raise RuntimeError("narrow(): length must be non-negative.")
    first, last = window(input._array.shape, dim, start_of(start), length)
    return slice__default(input, dim, first, last, 1)


def start_of(start):
    """The start as a number; it may be given as a tensor."""
    if not isinstance(start, Tensor):
        return start
    if start._array.ndim or start._array.dtype.kind not in "iu":
        raise RuntimeError("start must be an 0-dim integral Tensor.")
    return start.item()


def window(shape, dim, start, length):
    """The start and end of `length` elements along a dim."""
    if not shape:
        raise RuntimeError("narrow() cannot be applied to a 0-dim tensor.")
    size = shape[wrapped(dim, len(shape))]
    if not -size <= start <= size:
        raise IndexError(
            f"start out of range (expected to be in range of [{-size}, {size}], but got {start})"
        )
    first = start + size if start < 0 else start
    last = first + length
    if not first <= last <= size:
        raise RuntimeError(f"start ({first}) + length ({length}) exceeds dimension size ({size}).")
    return first, last


@method
def fill_diagonal_(self, fill_value, wrap=False):
    """Write a number to the main diagonal of all dims."""
    shape = self._array.shape
    if len(shape) < 2:
        raise RuntimeError("dimensions must larger than 1")
    if len(shape) > 2 and len(set(shape)) > 1:
        raise RuntimeError("all dimensions of input must be of equal length")
    steps = elements(self._array)
    step = sum(steps)
    self.as_strided((min(shape),), (step,)).fill_(fill_value)
    if wrap and len(shape) == 2 and shape[0] > shape[1] + 1:
        skipped = steps[0] * (shape[1] + 1)
        count = -((skipped - self.numel()) // step)
        offset = self.storage_offset() + skipped
        self.as_strided((count,), (step,), offset).fill_(fill_value)
    return self
