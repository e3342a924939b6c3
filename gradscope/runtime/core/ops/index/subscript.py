"""`x[...]` and `x[...] = value`, decomposed as in PyTorch: select, slice, unsqueeze, index."""

from __future__ import annotations

from operator import index as whole
from typing import Any

import numpy as np

from gradscope.runtime.core.dtypes.names import tp_name
from gradscope.runtime.core.ops.index.indexing import index_put_, indexed
from gradscope.runtime.core.ops.index.writing import copy_, fill_, wrapped_value
from gradscope.runtime.core.ops.shape.aliasing import alias
from gradscope.runtime.core.ops.shape.broadcasting import expand__default
from gradscope.runtime.core.ops.shape.shape import unsqueeze
from gradscope.runtime.core.ops.shape.slicing import select, slice__default
from gradscope.runtime.core.rows.offered import METHODS
from gradscope.runtime.core.state.array_calls import captured_as
from gradscope.runtime.core.tensors.dims import wrapped
from gradscope.runtime.core.tensors.making.factories import array_of
from gradscope.runtime.core.tensors.tensor.tensor import Tensor
from gradscope.runtime.core.tensors.wrapping import wrap

LAST = 2**63 - 1
LISTED_INDICES = 32
"""Length below which a list with anything but numbers is treated as a tuple."""


def _selected(self, dim, index, position=None):
    shape = self._array.shape
    if not shape and index:
        raise IndexError(f"index {index} is out of bounds for dimension 0 with size 0")
    if not shape:
        raise IndexError(
            "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or `tensor.item<T>()` "
            "in C++ to convert a 0-dim tensor to a number"
        )
    size = _size(self, dim)
    if not -size <= index < size:
        if not -LAST <= index <= LAST:
            raise ValueError("Overflow when unpacking long long")
        raise IndexError(
            f"index {index} is out of bounds for dimension {position or dim} with size {size}"
        )
    return select(self, dim, index)


def _size(self, dim):
    shape = self._array.shape
    if dim >= len(shape):
        wrapped(dim, len(shape))
    return shape[dim]


def _sliced(self, part):
    start, end, step = part.start, part.stop, part.step
    start = 0 if start is None else _whole(start)
    end = LAST if end is None else _whole(end)
    step = 1 if step is None else _whole(step)
    if step == 0:
        raise ValueError("slice step cannot be zero")
    if step < 0:
        raise ValueError("step must be greater than zero")
    if not self._array.ndim:
        raise IndexError("slice() cannot be applied to a 0-dim tensor.")
    return start, end, step


def _whole(bound):
    try:
        return whole(bound)
    except TypeError:
        raise TypeError(
            "slice indices must be integers or None or have an __index__ method"
        ) from None


def _narrowed(self, dim, part):
    """A slice; the tensor itself if the slice is all of it."""
    start, end, step = _sliced(self, part)
    size = _size(self, dim)
    if start == 0 and step == 1 and end >= size:
        return self
    return slice__default(self, dim, start, end, step)


def _getitem(self, index):
    kind = index.__class__
    if kind is int:
        return _selected(self, 0, index)
    if kind is slice:
        return slice__default(self, 0, *_sliced(self, index))
    if index is None:
        return unsqueeze(self, 0)
    if index is Ellipsis:
        return alias(self)
    if kind is tuple and PLAIN.issuperset([item.__class__ for item in index]):
        sliced = _windowed(self, index)
    else:
        sliced, indices = _taken_apart(self, _as_tuple(index))
        if indices:
            return indexed(sliced, indices)
    return alias(sliced) if sliced is self else sliced


PLAIN = frozenset({int, slice, type(None)})


def _windowed(self, items):
    """The view for an index of integers, slices and None only."""
    found, dim = self, 0
    if len(items) - items.count(None) > self._array.ndim:
        _check_count(self, items)
    for position, item in enumerate(items):
        if item.__class__ is int:
            found = _selected(found, dim, item, position)
        else:
            found = unsqueeze(found, dim) if item is None else _narrowed(found, dim, item)
            dim += 1
    return found


def _as_tuple(index):
    if isinstance(index, tuple):
        return index
    if isinstance(index, list) and len(index) < LISTED_INDICES:
        odd = (Tensor, np.ndarray, list, tuple, slice, type(Ellipsis), type(None))
        if any(isinstance(item, odd) for item in index):
            return tuple(index)
    return (index,)


def _taken_apart(self, items):
    """Apply the views that an index contains; tensors remain, with None in between.

    Returns the view and the remaining indices.
    """
    items = [_plain(item) for item in items]
    _check_count(self, items)
    ndim = self._array.ndim
    spent = sum(_dims_of(item) for item in items)
    found, dim = self, 0
    left: list[Any] = []
    for position, item in enumerate(items):
        kind = item.__class__
        if kind is int:
            found = _selected(found, dim, item, position)
        elif kind is slice:
            found = _narrowed(found, dim, item)
            left.append(None)
            dim += 1
        elif item is Ellipsis:
            left.extend([None] * (ndim - spent))
            dim += ndim - spent
        elif item is None:
            found = unsqueeze(found, dim)
            left.append(None)
            dim += 1
        else:
            found, dim = _recorded(found, dim, item, left)
    while left and left[-1] is None:
        left.pop()
    return found, left


def _recorded(found, dim, item, left):
    """Store a tensor for later. A bool without dims indexes a new dim of size 1."""
    if item._array.ndim:
        left.append(item)
        return found, dim + (item._array.ndim if item._array.dtype.kind == "b" else 1)
    found = unsqueeze(found, dim)
    left.append(wrap(np.zeros(int(bool(item)), np.int64)))
    return found, dim + 1


@captured_as("index")
def _plain(item):
    """An item of an index as an int, a slice, Ellipsis, None or a tensor."""
    if item is None or item is Ellipsis or item.__class__ in (int, slice):
        return item
    if isinstance(item, bool):
        return wrap(np.array(item))
    if isinstance(item, Tensor):
        array = item._array
        if array.ndim == 0 and array.dtype.kind in "iu" and array.dtype != np.uint8:
            return int(array)
        return wrap(array.astype(np.bool_)) if not array.ndim and array.dtype == np.uint8 else item
    if isinstance(item, np.integer):
        return int(item)
    if isinstance(item, np.ndarray):
        return _plain(wrap(item))
    if isinstance(item, list | tuple | range | str):
        return _listed(list(item))
    if hasattr(item, "__index__"):
        return whole(item)
    raise IndexError(
        "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid "
        f"indices (got {tp_name(item)})"
    )


def _listed(items):
    if any(isinstance(item, str) for item in items):
        raise TypeError("new(): invalid data type 'str'")
    if any(item.__class__ is float for item in items):
        items = [int(item) for item in items]
    array = array_of(items) if items else np.zeros(0, np.int64)
    return wrap(array)


def _dims_of(item):
    """The number of dims of the tensor that an item uses."""
    if item is None or item is Ellipsis:
        return 0
    if item.__class__ in (int, slice):
        return 1
    array = item._array
    return array.ndim if array.dtype.kind == "b" or array.dtype == np.uint8 else 1


def _check_count(self, items):
    spent, ndim = sum(_dims_of(item) for item in items), self._array.ndim
    if spent > ndim:
        raise IndexError(f"too many indices for tensor of dimension {ndim}")


def _setitem(self, index, value):
    value = wrapped_value(self, value)
    kind = index.__class__
    if index is False:
        return
    if kind is int:
        _write(_selected(self, 0, index), value)
    elif kind is slice:
        _write(_narrowed(self, 0, index), value)
    elif index is Ellipsis:
        _write(self, value)
    elif index is None or index is True:
        _write(unsqueeze(self, 0), value)
    else:
        sliced, indices = _taken_apart(self, _as_tuple(index))
        if not indices:
            _write(sliced, value)
            return
        index_put_(sliced, indices, _without_leading_ones(value))


def _write(window, value):
    """Copy to a view; a number fills it."""
    target, source = window._array.shape, value._array.shape
    if target == source:
        copy_(window, value)
    elif not source:
        fill_(window, value)
    else:
        copy_(window, _expanded(_viewed(value), target))


def _expanded(value, target):
    return value if value._array.shape == target else expand__default(value, target)


def _viewed(value):
    """The value without leading dims of size 1, always as a view."""
    return value.view(_shape_without_leading_ones(value._array.shape))


def _shape_without_leading_ones(shape):
    first = next((i for i, size in enumerate(shape) if size != 1), len(shape))
    return shape[first:]


def _without_leading_ones(value):
    shape = value._array.shape
    shorter = _shape_without_leading_ones(shape)
    return value if shorter == shape else value.view(shorter)


def _delitem(self, index):
    raise TypeError("Tensor does not support deleting items")


METHODS.update(__getitem__=_getitem, __setitem__=_setitem, __delitem__=_delitem)
