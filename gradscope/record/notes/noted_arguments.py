"""Reads arguments of calls that are not tensors, as far as their nodes store them.

Nodes store what derivatives need: dims, exponents, slopes, strides, flags. Reading takes some
microseconds, so only some nodes are read: of those with the same name and shape from the same line,
the first four, the eighth, the sixteenth, … For other nodes there are no arguments.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from math import isfinite
from typing import TYPE_CHECKING, Any

import numpy as np

from gradscope.machine_code.seldom import Seldom
from gradscope.record.notes.log import take_all
from gradscope.trace import schema

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gradscope.trace.writer import Values, Writer

OPERAND = "other"
"""Slots of nodes with a tensor that may be a number written in the program."""

INPUT, VIEW_OF = "input", "input_is_a_view_of"
"""Slot of a convolution with its input, and the key for the shape of which that is a view."""

OF_SHAPES = ("_sizes", "_sizes_opt", "_numel", "_argsize_0", "_strides")
"""Suffixes of attributes that only contain the shape of an operand."""

FACTORS = ("alpha", "beta")
"""Factors of the operands of a sum; the integer 1 means: not passed."""

RESULT = "result"
FLAT = frozenset(("TanhBackward0", "SigmoidBackward0", "SoftmaxBackward0"))
"""Functions that saturate for large inputs, with the slot that holds their results."""

MOST_LOOKED_AT = 1 << 16
"""Largest number of results that are all measured; of larger ones, only a part."""

UNSIGNED, SIGN = 1 << 64, 1 << 63
Value = bool | int | float | str | tuple["Value", ...]


def is_option(slot: str) -> bool:
    """Whether an attribute of a node with this name contains more than a shape."""
    return not slot.endswith(OF_SHAPES)


def base_shape(tensor: Any) -> tuple[int, ...] | None:
    """The shape of the base of which a tensor is a view in the same order; None: no such view."""
    base = tensor._base
    if base is None or tensor.requires_grad or not tensor.numel():
        return None
    inside = 1
    for size, step in zip(reversed(tensor.shape), reversed(tensor.stride()), strict=True):
        if step != inside and size > 1:
            return None
        inside *= size
    return tuple(base.shape)


def plain(value: object) -> Value | None:
    """A number, a text or a list of these; None: something else.

    PyTorch shows dims as unsigned numbers.
    """
    if isinstance(value, bool | float | str):
        return value
    if isinstance(value, int):
        return value if value < SIGN else value - UNSIGNED
    if isinstance(value, tuple | list):
        parts = [part for each in value if (part := plain(each)) is not None]
        return tuple(parts) if len(parts) == len(value) else None
    return None


class NotedArguments:
    """Arguments that were read and not written yet. `seldom` decides which nodes are read."""

    def __init__(self) -> None:
        self.seldom = Seldom()
        self._read: list[tuple[int, str]] = []
        self._looked: list[tuple[int, str]] = []

    def add(self, number: int, options: Mapping[str, object]) -> None:
        """Add a node with its stored arguments that are not tensors."""
        found: dict[str, Value] = {}
        for name, each in sorted(options.items()):
            value = plain(each)
            if value is not None and not (name in FACTORS and type(value) is int and value == 1):
                found[name] = value
        if found:
            self._read.append((number, in_json(found)))

    def add_results(self, number: int, array: NDArray[Any]) -> None:
        """Add a node with its stored results, in any order."""
        if array.size and array.dtype.kind == "f":
            part = array.reshape(-1)[:: 1 + array.size // MOST_LOOKED_AT].astype(np.float64)
            found: dict[str, Value] = {
                "count": int(array.size), "mean": _short(part.mean()),
                "rms": _short(np.sqrt(np.square(part).mean())),
            }  # fmt: skip
            self._looked.append((number, in_json(found)))

    def write(self, writer: Writer, ids: Callable[[list[int]], Values] = list) -> None:
        """Write what is waiting."""
        for column, waiting in (("arguments", self._read), ("results", self._looked)):
            read = take_all(waiting)
            if read:
                texts = [writer.intern(text) for _, text in read]
                rows = {"id": ids([number for number, _ in read]), column: texts}
                writer.block(schema.Node, rows, amend=True)


def _short(number: np.floating[Any]) -> float:
    return float(f"{number:.6g}")


def in_json(found: Mapping[str, Value]) -> str:
    """The JSON text; infinite numbers are written as text."""
    return json.dumps({name: _finite(value) for name, value in found.items()})


def _finite(value: Value) -> object:
    if isinstance(value, tuple):
        return [_finite(each) for each in value]
    return str(value) if isinstance(value, float) and not isfinite(value) else value
