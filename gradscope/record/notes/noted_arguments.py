"""What calls were given besides tensors, as far as their nodes keep it: read, and written as rows.

Nodes keep what derivatives need: dims, exponents, slopes, strides, a flag. To read it takes some
microseconds, so it is read seldom: of each kind of node, made on one line with one shape, of the
first four, the eighth, the sixteenth, … Of nodes that were not read nothing is said.
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
"""Where a node keeps a tensor that may be a number the program wrote."""

INPUT, VIEW_OF = "input", "input_is_a_view_of"
"""Where a convolution keeps what it was given, and how it is said of which shape that is a view."""

OF_SHAPES = ("_sizes", "_sizes_opt", "_numel", "_argsize_0", "_strides")
"""How names end of what only says the shape of an operand."""

FACTORS = ("alpha", "beta")
"""What a sum multiplies its operands by; 1, a whole number: it was not given."""

RESULT = "result"
FLAT = frozenset(("TanhBackward0", "SigmoidBackward0", "SoftmaxBackward0"))
"""Of what is flat where its input is large, the results are looked at, which these keep so."""

MOST_LOOKED_AT = 1 << 16
"""Of so many numbers; of more, of some among them."""

UNSIGNED, SIGN = 1 << 64, 1 << 63
Value = bool | int | float | str | tuple["Value", ...]


def is_option(slot: str) -> bool:
    """Whether what a node keeps by this name, and is no tensor, says more than a shape."""
    return not slot.endswith(OF_SHAPES)


def base_shape(tensor: Any) -> tuple[int, ...] | None:
    """Of what a tensor is a view that leaves all numbers in their order; None: of nothing such."""
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
    """A number, a text or several; None: it is something else.

    PyTorch shows dims as if they had no sign.
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
    """What was read, until it is written. `seldom` says when to."""

    def __init__(self) -> None:
        self.seldom = Seldom()
        self._read: list[tuple[int, str]] = []
        self._looked: list[tuple[int, str]] = []

    def add(self, number: int, options: Mapping[str, object]) -> None:
        """A node, and what it keeps that is no tensor."""
        found: dict[str, Value] = {}
        for name, each in sorted(options.items()):
            value = plain(each)
            if value is not None and not (name in FACTORS and type(value) is int and value == 1):
                found[name] = value
        if found:
            self._read.append((number, in_json(found)))

    def add_results(self, number: int, array: NDArray[Any]) -> None:
        """A node, and what it keeps of its results, in any order."""
        if array.size and array.dtype.kind == "f":
            part = array.reshape(-1)[:: 1 + array.size // MOST_LOOKED_AT].astype(np.float64)
            found: dict[str, Value] = {
                "count": int(array.size), "mean": _short(part.mean()),
                "rms": _short(np.sqrt(np.square(part).mean())),
            }  # fmt: skip
            self._looked.append((number, in_json(found)))

    def write(self, writer: Writer, ids: Callable[[list[int]], Values] = list) -> None:
        """Hand on what waits."""
        for column, waiting in (("arguments", self._read), ("results", self._looked)):
            read = take_all(waiting)
            if read:
                texts = [writer.intern(text) for _, text in read]
                rows = {"id": ids([number for number, _ in read]), column: texts}
                writer.block(schema.Node, rows, amend=True)


def _short(number: np.floating[Any]) -> float:
    return float(f"{number:.6g}")


def in_json(found: Mapping[str, Value]) -> str:
    """The text of it; JSON has no infinite numbers."""
    return json.dumps({name: _finite(value) for name, value in found.items()})


def _finite(value: Value) -> object:
    if isinstance(value, tuple):
        return [_finite(each) for each in value]
    return str(value) if isinstance(value, float) and not isfinite(value) else value
