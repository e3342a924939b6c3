"""Changes of shape: view, reshape, flatten, squeeze, unsqueeze."""

from __future__ import annotations

from math import prod

import numpy as np

from gradscope.runtime.core.calls.declare import (
    INTERNAL,
    LINEAR,
    METHOD_ONLY,
    family,
    op,
    view as view_op,
    w,
)
from gradscope.runtime.core.dtypes import dtypes
from gradscope.runtime.core.rows.offered import both, function, method
from gradscope.runtime.core.state.array_calls import layout_only
from gradscope.runtime.core.tensors.dims import sizes, text, wrapped, wrapped_all
from gradscope.runtime.core.tensors.memory.bits import PLAIN, bits_of
from gradscope.runtime.core.tensors.memory.storage import elements
from gradscope.runtime.core.tensors.views.views import share
from gradscope.runtime.core.tensors.wrapping import wrap


def _viewed(self, size):
    made = reshaped(self, size)
    if self.flags.c_contiguous or np.may_share_memory(made, self):
        return made
    raise RuntimeError(
        "view size is not compatible with input tensor's size and stride (at least one dimension "
        "spans across two contiguous subspaces). Use .reshape(...) instead."
    )


def reshaped(self, size):
    """An array with other sizes, copied if its strides do not allow a view."""
    try:
        made = self.reshape(size)
    except ValueError:
        raise RuntimeError(_misfit(self.size, size)) from None
    if made.shape != size and min(size) < -1:  # NumPy accepts any negative number as -1
        raise RuntimeError(_misfit(self.size, size))
    return made


def _misfit(count, size):
    """The error for sizes that do not fit the number of elements."""
    negative = [s for s in size if s < 0]
    if any(s < -1 for s in negative):
        at = next(i for i, s in enumerate(size) if s < -1)
        return f"invalid shape dimension {size[at]} at index {at} of shape {text(size)}"
    if len(negative) > 1:
        return "only one dimension can be inferred"
    if negative and count == 0:
        return (
            f"cannot reshape tensor of 0 elements into shape {text(size)} because the unspecified "
            "dimension size -1 can be any value and is ambiguous"
        )
    return f"shape '{text(size)}' is invalid for input of size {count}"


view__default = view_op(
    "ViewBackward0", _viewed, METHOD_ONLY, self=lambda grad, self_shape: grad.reshape(self_shape)
)
_reshape_alias = view_op(
    "ReshapeAliasBackward0",
    _viewed,
    INTERNAL,
    self=lambda grad, self_shape: grad.reshape(self_shape),
)
_unsafe_view = op(
    "UnsafeViewBackward0",
    reshaped,
    LINEAR,
    INTERNAL,
    self=lambda grad, self_shape: grad.reshape(self_shape),
)


def _squeeze_dim(self, dim):
    dim = wrapped(dim, self.ndim)
    return self.squeeze(dim) if self.ndim and self.shape[dim] == 1 else self[...]


def _squeeze_dims(self, dim):
    dims = wrapped_all(dim, self.ndim)
    return self.squeeze(tuple(d for d in dims if self.ndim and self.shape[d] == 1))[...]


def _unsqueezed(grad, shape):
    """Restore a gradient's dims of size 1."""
    for dim, size in enumerate(shape):
        if size == 1:
            grad = w.unsqueeze(grad, dim)
    return grad


def _unsqueezed_dims(grad, shape, dims):
    for dim in sorted(wrapped(d, len(shape)) for d in dims):
        if shape and shape[dim] == 1:
            grad = w.unsqueeze(grad, dim)
    return grad


SQUEEZE = {"self": lambda grad, self_shape: _unsqueezed(grad, self_shape)}
SQUEEZE_DIM = {"self": lambda grad, dim, self_shape: _unsqueezed_dims(grad, self_shape, (dim,))}
SQUEEZE_DIMS = {"self": lambda grad, dim, self_shape: _unsqueezed_dims(grad, self_shape, dim)}

squeeze__default = view_op("SqueezeBackward0", lambda self: self.squeeze()[...], **SQUEEZE)
squeeze__dim = view_op("SqueezeBackward1", _squeeze_dim, **SQUEEZE_DIM)
squeeze__dims = view_op("SqueezeBackward2", _squeeze_dims, **SQUEEZE_DIMS)


def _unsqueeze(self, dim):
    shape = self.shape
    if dim < 0 or dim > len(shape):
        dim = wrapped(dim, len(shape) + 1)
    return self.reshape((*shape[:dim], 1, *shape[dim:]))


UNSQUEEZE = {"self": lambda grad, dim: grad.squeeze(dim)}

unsqueeze = view_op("UnsqueezeBackward0", _unsqueeze, **UNSQUEEZE)


family(globals())


@method
@layout_only
def view(self, *shape, dtype=None):
    """The same elements with other sizes, or the same bytes as another dtype."""
    if dtype is not None or (shape and isinstance(shape[0], dtypes.dtype)):
        return _view_as_bytes(self, dtype or shape[0])
    if not shape and self._array.ndim:
        raise TypeError(
            "view() received an invalid combination of arguments - got (), but expected one of:\n"
            " * (torch.dtype dtype)\n * (tuple of ints size)"
        )
    return view__default(self, shape if len(shape) > 1 else sizes(shape))


def _view_as_bytes(self, dtype):
    """The same bytes as another dtype: not differentiable, but with the same version counter."""
    bits = bits_of(self)
    if bits != PLAIN:
        what = "conjugate view tensors" if bits.conj else "tensors with negative bit set"
        raise RuntimeError(
            f"torch.Tensor.view is not supported for {what} when converting to a different dtype."
        )
    array, wanted = self._array, dtype.numpy.itemsize
    if array.itemsize != wanted:
        words = f"to view {self.dtype.scalar_name} as {dtype.scalar_name} (different element sizes)"
        _check_bytes(self, wanted // array.itemsize, words)
    if array.size or array.itemsize == wanted:
        made = wrap(array.view(dtype.numpy))
    else:
        last = array.shape[-1] * array.itemsize // wanted
        made = wrap(np.empty((*array.shape[:-1], last), dtype.numpy))
    share(made, self)
    return made


def _check_bytes(self, ratio, words):
    """Check that the memory can be viewed with elements `ratio` times larger."""
    array = self._array
    steps = elements(array)
    if not array.ndim:
        raise RuntimeError(f"self.dim() cannot be 0 {words}")
    if steps[-1] != 1 and array.size:
        raise RuntimeError(f"self.stride(-1) must be 1 {words}, but got {steps[-1]}")
    if not ratio:
        return
    if array.shape[-1] % ratio:
        raise RuntimeError(
            f"self.size(-1) must be divisible by {ratio} {words}, but got {array.shape[-1]}"
        )
    if self.storage_offset() % ratio:
        raise RuntimeError(
            f"self.storage_offset() must be divisible by {ratio} {words}, but got "
            f"{self.storage_offset()}"
        )
    for dim, step in enumerate(steps[:-1]):
        if step % ratio:
            raise RuntimeError(
                f"self.stride({dim}) must be divisible by {ratio} {words}, but got {step}"
            )


@method
def view_as(self, other):
    return view__default(self, other._array.shape)


@both
@layout_only
def reshape(input, *shape):
    """A view if the strides allow it, otherwise a copy."""
    size = sizes(shape)
    array = input._array
    if array.flags.c_contiguous:
        return view__default(input, size)
    if viewable(array, size):
        return _reshape_alias(input, size)
    return _unsafe_view(input.contiguous(), size)


def viewable(array, size):
    """Whether the elements can have these sizes without a copy."""
    if -1 in size:
        rest = -prod(size)
        if rest == 0 or array.size % rest:
            raise RuntimeError(_misfit(array.size, size))
        size = tuple(array.size // rest if s == -1 else s for s in size)
    if prod(size) != array.size or min(size, default=0) < 0:
        raise RuntimeError(_misfit(array.size, size))
    return _walk(array, list(size))


def _walk(array, left):
    """Split the dims into evenly strided runs, each of which new dims must use up."""
    run, step = 1, array.strides[-1]
    for dim in reversed(range(array.ndim)):
        run *= array.shape[dim]
        before = dim - 1
        if dim and (array.shape[before] == 1 or array.strides[before] == run * step):
            continue
        while left and (run > 1 or left[-1] == 1):
            size = left.pop()
            if run % size:
                return False
            run //= size
        if run != 1:
            return False
        if dim:
            step = array.strides[before]
    return True


@method
def reshape_as(self, other):
    return reshape(self, other._array.shape)


@both
def flatten(input, start_dim=0, end_dim=-1):
    """Merge the dims from `start_dim` to `end_dim`."""
    shape = input._array.shape
    start, end = wrapped(start_dim, len(shape)), wrapped(end_dim, len(shape))
    if start > end:
        raise RuntimeError("flatten() has invalid args: start_dim cannot come after end_dim")
    if not shape:
        return reshape(input, (1,))
    if start == end:
        return input
    return reshape(input, (*shape[:start], prod(shape[start : end + 1]), *shape[end + 1 :]))


@both
def ravel(input):
    return input.contiguous().view(-1)


@both
def unflatten(input, dim, sizes):
    """Split one dim into several."""
    shape = input._array.shape
    at = wrapped(dim, len(shape))
    if not sizes:
        raise RuntimeError("unflatten: sizes must be non-empty")
    rest = -prod(sizes) if -1 in sizes else 1
    found = [shape[at] // rest if s == -1 and rest else s for s in sizes]
    if prod(found) != shape[at]:
        raise RuntimeError(
            f"unflatten: Provided sizes {text(sizes)} don't multiply up to the size of dim {dim} "
            f"({shape[at]}) in the input tensor"
        )
    return input.view(*shape[:at], *found, *shape[at + 1 :])


@both
def squeeze(input, dim=None):
    """Remove dims of size 1: all, or the given ones."""
    if dim is None:
        return squeeze__default(input)
    if isinstance(dim, tuple | list):
        return squeeze__dims(input, tuple(dim))
    return squeeze__dim(input, dim)


@function
def atleast_1d(*tensors):
    return _each(lambda t: reshape(t, (1,)) if t.dim() == 0 else t, tensors)


@function
def atleast_2d(*tensors):
    made = {0: lambda t: reshape(t, (1, 1)), 1: lambda t: t.unsqueeze(0)}
    return _each(lambda t: made.get(t.dim(), lambda same: same)(t), tensors)


@function
def atleast_3d(*tensors):
    made = {
        0: lambda t: reshape(t, (1, 1, 1)),
        1: lambda t: t.unsqueeze(0).unsqueeze(-1),
        2: lambda t: t.unsqueeze(-1),
    }
    return _each(lambda t: made.get(t.dim(), lambda same: same)(t), tensors)


def _each(make, tensors):
    if len(tensors) == 1 and not isinstance(tensors[0], tuple | list):
        return make(tensors[0])
    flat = tensors[0] if len(tensors) == 1 else tensors
    return tuple(make(t) for t in flat)
