"""Reads names of calls and values from PyTorch's memory."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from gradscope.watch.native.versions import BEFORE, STRING


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
