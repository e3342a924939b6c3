"""Windows: how a view is derived from its base, replayed on other memory.

# Note [Memory laid out as the base's]
Most views depend on the dims of their input only, and can be replayed on any array of the base's
sizes. `as_strided` refers to offsets in the storage, and `view` may depend on the memory layout:
these are replayed on memory laid out as the base's storage, and so is every view of a base whose
own dims were changed in place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from gradscope.runtime.core.rows.operation import REGISTRY
from gradscope.runtime.core.rows.traits import IN_STORAGE
from gradscope.runtime.core.tensors.memory.storage import elements, offset_of
from gradscope.runtime.core.tensors.tensor.autograd_meta import TensorFields, ViewMeta

Chain = tuple[tuple[Any, tuple[Any, ...], int], ...]
"""(operation, options, index of the result), from the base to the view."""


class StorageLayout(NamedTuple):
    """The layout of a tensor in its storage, in elements."""

    strides: tuple[int, ...]
    offset: int
    length: int  # of the storage

    @classmethod
    def of(cls, tensor: TensorFields) -> StorageLayout:
        array, storage = tensor._array, tensor.untyped_storage()
        length = storage.nbytes() // array.itemsize
        return cls(elements(array), offset_of(array, storage), length)

    def zeros(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
        item = dtype.itemsize
        memory = np.zeros(self.length, dtype)
        steps = tuple(step * item for step in self.strides)
        return np.ndarray(shape, dtype, memory, self.offset * item, steps)


class Window:
    """The position of a view in its base, and the layout of the base where it matters."""

    __slots__ = ("chain", "layout")

    def __init__(self, base: TensorFields, chain: Chain, view: TensorFields) -> None:
        reshaped = base._meta is not None and base._meta.reshaped
        if reshaped and view._array.dtype == base._array.dtype:
            chain = _by_place(view)
        self.chain = chain
        self.layout: StorageLayout | None = None
        if not base._array.flags.c_contiguous or any(IN_STORAGE in op.traits for op, _, _ in chain):
            self.layout = StorageLayout.of(base)

    def blank(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
        """Zeros of the base's sizes."""
        return np.zeros(shape, dtype) if self.layout is None else self.layout.zeros(shape, dtype)

    def copied(self, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """A copy on which the window can be replayed."""
        if self.layout is None:
            return np.array(array, order="C")
        made = self.blank(array.shape, array.dtype)
        made[...] = array
        return made

    def on_array(self, array: Any) -> Any:
        return replay_arrays(array, self.chain)

    def put(self, array: Any, window: Any, values: Any) -> None:
        """Write values to the window of an array; `window` is the view taken there."""
        window[...] = values

    def on_tensor(self, tensor: Any) -> Any:
        return replay_tensors(tensor, self.chain)

    def spread(self, grad: Any, base_shape: tuple[int, ...]) -> Any:
        """The window's gradient as one of its base. Elements that are seen twice get the sum."""
        made = self.blank(base_shape, grad.dtype)
        window = self.on_array(made)
        if _shows_twice(window):
            places = self.blank(base_shape, np.dtype(np.int64))
            places[...] = np.arange(1, made.size + 1).reshape(base_shape)
            flat = np.zeros(made.size + 1, grad.dtype)  # last: the rest of the storage
            np.add.at(flat, self.on_array(places) - 1, grad)
            return flat[:-1].reshape(base_shape)
        window[...] = grad
        return made


class OddWindow(Window):
    """A window that may change signs: then it is a copy."""

    __slots__ = ()

    def put(self, array: Any, window: Any, values: Any) -> None:
        _write_through(array, self.chain, values)


def replay_arrays(array: Any, chain: Chain) -> Any:
    """Replay the window on another array."""
    for op, options, nr in chain:
        if IN_STORAGE in op.traits:
            options = _placed(options)
        array = op.kernel(array, *options)
        if op.plan.outputs != 1:
            array = array[nr]
    return array


def _write_through(array: Any, chain: Chain, values: Any) -> None:
    """Write through a chain that changes signs, whose result is therefore a copy."""
    place = next((i for i, (op, _, _) in enumerate(chain) if op.turns is not None), None)
    if place is None:
        replay_arrays(array, chain)[...] = values
        return
    window, (turn, _, _) = replay_arrays(array, chain[:place]), chain[place]
    copy = turn.kernel(window)
    _write_through(copy, chain[place + 1 :], values)
    window[...] = turn.kernel(copy)


def replay_tensors(tensor: Any, chain: Chain) -> Any:
    """Replay the window on another tensor."""
    for op, options, nr in chain:
        if IN_STORAGE in op.traits:
            tensor = tensor.as_strided(*_placed(options)[:3])
            continue
        tensor = op.call_with(tensor, *options)
        if op.plan.outputs != 1:
            tensor = tensor[nr]
    return tensor


MEASURES = {"index", "start", "end", "step", "size", "stride", "storage_offset", "split_size"}
"""Options of views that select elements, which a caller of `taken_again` may change."""


def taken_again(
    view: TensorFields,
    base: Any,
    measured: Callable[[int], int] | None = None,
    *,
    anyhow: bool = False,
) -> Any:
    """The same view of a base with the same layout.

    For another layout: None, or with `anyhow` a strided view with the same offset.
    """
    meta = view._meta
    if not isinstance(meta, ViewMeta):
        return None
    alike = base.shape == meta.base.shape and base.stride() == meta.base.stride()
    if not alike:
        place = (view.shape, view.stride(), view.storage_offset())
        return base.as_strided(*place) if anyhow else None
    chain = meta.chain
    if measured is not None:
        chain = tuple((op, _measured(op, options, measured), nr) for op, options, nr in chain)
    return replay_tensors(base, chain)


def _measured(op: Any, options: tuple[Any, ...], measured: Callable[[int], int]) -> Any:
    names = [p.name for p in op.plan.parameters if not p.tensor]
    return tuple(
        _each(value, measured) if name in MEASURES else value
        for name, value in zip(names, options, strict=True)
    )


def _each(value: Any, measured: Callable[[int], int]) -> Any:
    if isinstance(value, tuple):
        return tuple(_each(each, measured) for each in value)
    return value if value is None else measured(value)


def _placed(options: tuple[Any, ...]) -> tuple[Any, ...]:
    """The options of `as_strided`, with the storage offset filled in."""
    size, stride, offset, geometry = options
    return size, stride, geometry[1] if offset is None else offset, geometry


def _by_place(view: TensorFields) -> Chain:
    """The single step from a storage to a view on it."""
    array = view._array
    offset = offset_of(array, view.untyped_storage())
    options = (array.shape, elements(array), offset, (elements(array), offset))
    return ((REGISTRY["as_strided"], options, 0),)


def _shows_twice(window: Any) -> bool:
    """Whether a window may show an element at several indices, as `expand` and `unfold` do."""
    reach = 0
    pairs = zip(window.strides, window.shape, strict=True)
    for step, size in sorted((abs(step), size) for step, size in pairs if size > 1):
        if step <= reach:
            return True
        reach += step * (size - 1)
    return False
