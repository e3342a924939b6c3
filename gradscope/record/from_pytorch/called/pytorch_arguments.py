"""Arguments of PyTorch calls that are not tensors, read from Python attributes of their nodes."""

from __future__ import annotations

import ctypes
from typing import Any
from weakref import WeakKeyDictionary

from gradscope.record.acts.numbers.moved import seen
from gradscope.record.notes.noted_arguments import (
    FLAT,
    INPUT,
    OPERAND,
    RESULT,
    VIEW_OF,
    NotedArguments,
    base_shape,
    is_option,
)

SAVED, RAW, CUSTOM = "_saved_", "_raw_saved_", "saved_tensors"
CONVOLUTION = "ConvolutionBackward0"
NUMBERS: dict[str, Any] = {
    "torch.float64": ctypes.c_double, "torch.float32": ctypes.c_float,
    "torch.int64": ctypes.c_int64, "torch.bool": ctypes.c_bool,
}  # fmt: skip


class PyTorchArguments(NotedArguments):
    """Reads nodes."""

    def __init__(self) -> None:
        super().__init__()
        self._names: WeakKeyDictionary[type, tuple[str, ...]] = WeakKeyDictionary()

    def has(self, kind: type) -> bool:
        """Whether nodes of this class may store arguments."""
        return bool(self._names_of(kind))

    def look(self, node: Any, number: int) -> None:
        """Read the stored arguments of a node."""
        found = {}
        for name in self._names_of(type(node)):
            value = getattr(node, name)
            if not name.startswith(RAW):
                found[name.removeprefix(SAVED)] = value
                continue
            tensor = _held(value)
            if tensor is not None and name == RAW + INPUT:
                found[VIEW_OF] = base_shape(tensor)
            elif tensor is not None and name == RAW + RESULT:
                array = seen(tensor, _memory)
                if array is not None:
                    self.add_results(number, array)
            elif tensor is not None:
                found[OPERAND] = _number(tensor)
        self.add(number, found)

    def _names_of(self, kind: type) -> tuple[str, ...]:
        """The attributes to read: never those that unpack a tensor, which may recompute it."""
        names = self._names.get(kind)
        if names is None:
            every = () if hasattr(kind, CUSTOM) else dir(kind)
            slots = [name.removeprefix(SAVED) for name in every if name.startswith(SAVED)]
            tensors = [slot for slot in slots if f"{RAW}{slot}" in every]
            options = [f"{SAVED}{s}" for s in slots if s not in tensors and is_option(s)]
            wanted = (OPERAND, INPUT) if kind.__name__ == CONVOLUTION else (OPERAND,)
            wanted = (RESULT,) if kind.__name__ in FLAT else wanted
            operands = [f"{RAW}{slot}" for slot in wanted if slot in tensors]
            names = self._names[kind] = (*options, *operands)
        return names


def _held(kept: Any) -> Any:
    """The saved tensor; None: there is none, or a hook has packed it."""
    if not hasattr(kept, "unpack_hook"):  # before PyTorch 2.9
        return None
    try:
        return None if kept.unpack_hook is not None else kept.data
    except RuntimeError:  # released
        return None


def _number(tensor: Any) -> object:
    """The value of an operand, read from memory: a call would be recorded like any other."""
    kind = None if tensor.requires_grad or tensor.dim() else NUMBERS.get(str(tensor.dtype))
    there = None if kind is None else _memory(tensor)
    return None if kind is None or not there else kind.from_buffer_copy(there).value


def _memory(tensor: Any) -> memoryview | None:
    """The bytes of a tensor on the CPU. The import waits until the program has imported PyTorch."""
    if tensor.device.type != "cpu":  # its values are measured there, from level `values` on
        return None
    from gradscope.watch.values.reachable import memory

    return memory(tensor)
