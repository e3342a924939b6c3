"""Users' access to saved values: `_saved_*`, `_raw_saved_*` and `saved_tensors`."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradscope.runtime.core.errors.engine import saved_values as errors
from gradscope.runtime.core.graph.node import Node
from gradscope.runtime.core.state import upward
from gradscope.runtime.core.tensors.saved.saved_variable import (
    SavedVariable,
    freed,
    tell_reading,
    unpack_tensor,
)
from gradscope.runtime.core.tensors.tensor.tensor import Tensor


class SavedTensor:
    """A saved tensor of a node: a slot, or an item of a slot that is a list."""

    __slots__ = ("_node", "_place", "_slot")

    _node: Any
    _slot: int
    _place: int | None

    def __init__(self) -> None:
        raise RuntimeError("Trying to create a SavedTensor object from Python is forbidden.")

    @classmethod
    def of(cls, node: Any, slot: int, place: int | None = None) -> SavedTensor:
        made: SavedTensor = object.__new__(cls)
        made._node, made._slot, made._place = node, slot, place
        return made

    def _value(self) -> Any:
        """The saved value; None if there is none, or if it was released."""
        kept = self._node._saved
        if kept is None:
            return None
        value = kept[self._slot]
        return value if self._place is None else value[self._place]

    @property
    def data(self) -> Any:
        """The saved value as stored: packed, if it has hooks."""
        value = self._value()
        if not isinstance(value, SavedVariable):
            return _plain(value)
        if value.hooks is not None:
            return value.packed
        return value.tensor if value.tensor is not None else Tensor.from_array(value.array)

    @property
    def unpack_hook(self) -> Any:
        value = self._value()
        packed = isinstance(value, SavedVariable) and value.hooks is not None
        return value.hooks[1] if packed else None

    def unpack(self) -> Any:
        """The value as backward will see it."""
        value = self._value()
        return None if value is None else unpack_tensor(self._node, _plain(value), self._slot)

    def register_hooks(self, *hooks: Any) -> None:
        """Set hooks (pack, unpack) on this saved value, once."""
        if len(hooks) != 2 or not all(map(callable, hooks)):
            raise TypeError(
                "register_hooks(): incompatible function arguments. The following argument types "
                "are supported:\n    (pack_hook: Callable, unpack_hook: Callable)"
            )
        value = self._value()
        if value is None:
            raise RuntimeError(NOTHING_LEFT if self._node._saved is None else NOTHING_THERE)
        if not isinstance(value, SavedVariable):
            value = self._as_variable(_plain(value))
        if value.hooks is not None:
            raise errors.saved_hooks_twice()
        self._node.extra()  # so that its run and the hook in it are reported by methods
        value.pack_again(hooks)

    def _as_variable(self, tensor: Any) -> SavedVariable:
        """Store the value in a form that can be packed."""
        made = SavedVariable()
        made.is_leaf = tensor._edge is None and not (tensor._meta and tensor._meta.detached)
        made.tensor = tensor
        made.version = 0
        kept = list(self._node._saved)
        if self._place is None:
            kept[self._slot] = made
        else:
            several = list(kept[self._slot])
            several[self._place] = made
            kept[self._slot] = several
        self._node._saved = tuple(kept)
        return made


NOTHING_THERE = "Calling register_hooks on a saved tensor with value None is forbidden"
NOTHING_LEFT = (
    "Calling register_hooks on a saved tensor after it has been freed. Saved intermediate values "
    "of the graph are freed when you call .backward() or autograd.grad(). Specify "
    "retain_graph=True if you need to backward through the graph a second time or if you need to "
    "access saved variables after calling backward."
)


def _plain(value: Any) -> Any:
    """A saved value as a tensor. Python numbers are saved as arrays."""
    return Tensor.from_array(np.asarray(value.item())) if isinstance(value, np.ndarray) else value


def saved_value(node: Node, index: int) -> Any:
    """The content of a slot as `grad_fn._saved_other` shows it: unpacked."""
    if node._saved is None:
        freed(node)
    value = node._saved[index]
    tell_reading(node, value, index)
    if node.slots[index].endswith("_sym_strides"):
        return tuple(step // node.input_metadata[0][1].itemsize for step in value)
    found = unpack_tensor(node, _plain(value), index)
    if node.slots[index] in WHOLE_NUMBERS and isinstance(found, int | tuple):
        return _unsigned(found)
    return tuple(found) if isinstance(found, list) else found


WHOLE_NUMBERS = frozenset({
    "diagonal", "dim", "dim0", "dim1", "dim2", "dimension", "dims", "end", "ignore_index", "index",
    "offset", "pad", "padding_idx", "shifts", "start",
})  # fmt: skip
"""Slots of options that PyTorch declares as int: it shows negative values as unsigned."""


def _unsigned(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(_unsigned(each) for each in value)
    return value + 2**64 if isinstance(value, int) and value < 0 else value


def raw_saved_value(node: Any, index: int) -> Any:
    """A slot as `_raw_saved_*` shows it: not unpacked."""
    value = None if node._saved is None else node._saved[index]
    if isinstance(value, list):
        return tuple(SavedTensor.of(node, index, place) for place in range(len(value)))
    return SavedTensor.of(node, index)


upward.saved_value = saved_value
upward.raw_saved_value = raw_saved_value
