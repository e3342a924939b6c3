"""Windows: the way from a base to a view of it, taken again on other memory.

# Note [Memory laid out as the base]
Most views say where they look by the dims of their input, and can be taken again on any array of
the base's sizes. `as_strided` says it by places in the storage: it is taken again on memory laid
out as the base's, with the base at its beginning, so that its places are counted from there.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from gradscope.runtime.storage import elements, offset_of
from gradscope.runtime.traits import IN_STORAGE

if TYPE_CHECKING:
    from gradscope.runtime.tensor import Tensor

Chain = tuple[tuple[Any, tuple[Any, ...], int], ...]
"""(operation, options, which of its results), from the base to the view."""


class Window:
    """Where a view lies in its base, and how the base lies in memory."""

    __slots__ = ("chain", "shift", "strides")

    def __init__(self, base: Tensor, chain: Chain) -> None:
        self.chain = chain
        self.shift = 0
        self.strides: tuple[int, ...] | None = None
        if any(IN_STORAGE in op.traits for op, _, _ in chain):
            self.shift = offset_of(base._array, base.untyped_storage())
            self.strides = elements(base._array)

    def blank(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
        """Zeros of the base's sizes, laid out as the base where that matters."""
        if self.strides is None:
            return np.zeros(shape, dtype)
        reach = 1 + sum((n - 1) * step for n, step in zip(shape, self.strides, strict=True) if n)
        memory = np.zeros(max(reach, prod(shape)), dtype)
        steps = tuple(step * dtype.itemsize for step in self.strides)
        return np.lib.stride_tricks.as_strided(memory, shape, steps)

    def copied(self, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """A copy on which the window can be taken."""
        if self.strides is None:
            return np.array(array)
        made = self.blank(array.shape, array.dtype)
        made[...] = array
        return made

    def on_array(self, array: Any) -> Any:
        return replay_arrays(array, self.chain, self.shift)

    def on_tensor(self, tensor: Any) -> Any:
        return replay_tensors(tensor, self.chain, self.shift)

    def spread(self, grad: Any, base_shape: tuple[int, ...]) -> Any:
        """The window's gradient as one of its base; elements seen twice get the sum."""
        made = self.blank(base_shape, grad.dtype)
        window = self.on_array(made)
        if _shows_twice(window):
            places = self.blank(base_shape, np.dtype(np.int64))
            places[...] = np.arange(made.size).reshape(base_shape)
            flat = np.zeros(made.size, grad.dtype)
            np.add.at(flat, self.on_array(places), grad)
            return flat.reshape(base_shape)
        window[...] = grad
        return made


def replay_arrays(array: Any, chain: Chain, shift: int = 0) -> Any:
    """Take the same window on another array, whose storage begins `shift` elements later."""
    for op, options, nr in chain:
        if IN_STORAGE in op.traits:
            options = _placed(options, shift)
        array = op.kernel(array, *options)
        if op.plan.outputs != 1:
            array = array[nr]
    return array


def replay_tensors(tensor: Any, chain: Chain, shift: int = 0) -> Any:
    """Take the same window on another tensor."""
    for op, options, nr in chain:
        if IN_STORAGE in op.traits:
            tensor = tensor.as_strided(*_placed(options, shift)[:3])
            continue
        tensor = op.call_with(tensor, *options)
        if op.plan.outputs != 1:
            tensor = tensor[nr]
    return tensor


def _placed(options: tuple[Any, ...], shift: int) -> tuple[Any, ...]:
    """The options of `as_strided`, with a place counted from `shift`."""
    size, stride, offset, geometry = options
    begin = geometry[1] if offset is None else offset
    return size, stride, begin - shift, geometry


def _shows_twice(window: Any) -> bool:
    """Whether a window may show an element at several places, as `expand` and `unfold` do."""
    reach = 0
    pairs = zip(window.strides, window.shape, strict=True)
    for step, size in sorted((abs(step), size) for step, size in pairs if size > 1):
        if step <= reach:
            return True
        reach += step * (size - 1)
    return False
