"""Columns and kinds of the rows written by the observer of calls, and the names of calls."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradscope.watch.native.versions import BEFORE, STRING

Ints = NDArray[np.int64]

HELD, STAMP, BEGIN, END, NANOSECONDS, WORD, SEQUENCE, THREAD = range(8)
"""HELD: see Note [What a run holds] in watch/observer.py. END and NANOSECONDS: the end in seconds
and the remainder; 0 while the call is running. WORD: the address of the schema; if negative, the
call has none, and this is the beginning of its text."""

TEXT, NO_TEXT = -0x8000000000000000, 0x7FFFFFFFFFFFFFFF

EVALUATE = int.from_bytes(b"autograd", "little") + TEXT
"""Beginning of the text of `autograd::engine::evaluate_function`: the engine processes a node."""

NO_LINE = 0
"""Used instead of a place: it was not requested, or there is none."""

GRADIENTS = ("add", "add_", "detach", "clone", "new_empty_strided", "_sparse_coo_tensor_unsafe")
ADD, ADD_IN_PLACE, DETACH, CLONE, NEW_EMPTY, NEW_SPARSE = range(len(GRADIENTS))
"""Functions that PyTorch calls to add and store gradients, in addition to those that nodes call."""


class CalledRead(NamedTuple):
    """Rows that were written since the last reading."""

    rows: Ints
    lost: int


def name_at(schema: int) -> tuple[str, str]:
    """Name and overload of a schema, `aten::add` and `Tensor`; it begins with these two texts."""
    with _OWN_MEMORY.open("rb", 0) as memory:
        return _text(memory, schema), _text(memory, schema + STRING)


def value_at(address: int) -> tuple[int, int]:
    """Content and type tag of what may be a PyTorch value (`c10::IValue`)."""
    with _OWN_MEMORY.open("rb", 0) as memory:
        words = os.pread(memory.fileno(), 16, address)
    return int.from_bytes(words[:8], "little"), int.from_bytes(words[8:12], "little")


_OWN_MEMORY = Path("/proc/self/mem")  # an invalid address raises an error, no segmentation fault
_LONGEST = 200


def _text(memory: Any, address: int) -> str:
    def word(at: int) -> int:
        return int.from_bytes(os.pread(memory.fileno(), 8, at), "little")

    place = word(address)
    length = word(place - BEFORE if BEFORE else address + 8)
    if length > _LONGEST:
        raise ValueError("a name is not where it was expected")
    return os.pread(memory.fileno(), length, place).decode()
