"""What the observer of calls puts down: columns, kinds, and how a call is named."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

HELD, STAMP, BEGIN, END, NANOSECONDS, WORD, SEQUENCE, THREAD = range(8)
"""HELD: see Note [What a run holds] in watch/observer.py. The end: seconds, and the rest; nothing,
while the call is under way. WORD: the address of its schema; or, less than 0, the call has none,
and this is how its text begins."""

TEXT, NO_TEXT = -0x8000000000000000, 0x7FFFFFFFFFFFFFFF

EVALUATE = int.from_bytes(b"autograd", "little") + TEXT
"""How the text of `autograd::engine::evaluate_function` begins: the engine attends to a node."""

NO_LINE = 0
"""In place of a place: none was looked for, or there is none."""

GRADIENTS = ("add", "add_", "detach", "clone", "new_empty_strided", "_sparse_coo_tensor_unsafe")
ADD, ADD_IN_PLACE, DETACH, CLONE, NEW_EMPTY, NEW_SPARSE = range(len(GRADIENTS))
"""What PyTorch calls to add gradients and to take them over, besides what nodes call."""


class CalledRead(NamedTuple):
    """What was put down since the last reading."""

    rows: Ints
    lost: int


def name_at(schema: int) -> tuple[str, str]:
    """The names of a schema, `aten::add` and `Tensor`; it begins with these two texts."""
    with _OWN_MEMORY.open("rb", 0) as memory:
        return _text(memory, schema), _text(memory, schema + _LENGTH_OF_TEXT)


def value_at(address: int) -> tuple[int, int]:
    """What may be one of PyTorch's values (`c10::IValue`): its content, and what it is."""
    with _OWN_MEMORY.open("rb", 0) as memory:
        words = os.pread(memory.fileno(), 16, address)
    return int.from_bytes(words[:8], "little"), int.from_bytes(words[8:12], "little")


_OWN_MEMORY = Path("/proc/self/mem")  # an address that is none is an error, and no fault
_LENGTH_OF_TEXT, _LONGEST = 32, 200


def _text(memory: Any, address: int) -> str:
    place, length = (
        int.from_bytes(os.pread(memory.fileno(), 8, address + at), "little") for at in (0, 8)
    )
    if length > _LONGEST:
        raise ValueError("a name is not where it was expected")
    return os.pread(memory.fileno(), length, place).decode()
