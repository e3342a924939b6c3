"""Calls that made no node, and whose result is not finite: data that is prepared, metrics.

No walk comes to them, so that what they returned would be nobody's. A call made no node if the next
node has the number afterwards that it had when the call began. Who called is asked only here (Note
[Lines from inside] in called/places.py): what is finite costs nothing.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gradscope.machine_code.language import Address, External, increase, load, store
from gradscope.machine_code.ring import Reader
from gradscope.watch.called import observer as calls
from gradscope.watch.called.places import place_here
from gradscope.watch.called.rows import Ints
from gradscope.watch.values.rows import CALL_STAMP

CAPACITY, ROW = 1 << 12, 8 * 8
_rows = np.zeros((CAPACITY, 8), np.int64)
_state = np.zeros(1, np.int64)
ROWS, COUNT = Address(_rows.ctypes.data, "bad_calls"), Address(_state.ctypes.data, "bad_count")
MASK, BILLION = CAPACITY - 1, 1_000_000_000
PEEK = "_ZN2at15sequence_number4peekEv"
OFFSET = calls.OFFSET


def not_known() -> int:
    """In place of the number of the next node, where that cannot be asked for."""
    return -1


peek: Any = not_known  # at::sequence_number::peek


def ready() -> None:
    """Ask PyTorch itself, if that is possible."""
    global peek  # noqa: PLW0603 -- compiled code names it
    library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))
    peek = External(library, PEEK, 0) if hasattr(library, PEEK) else not_known


def put_call(function: int, row: int) -> int:
    """A row of this call, which has one among calls, if it made no node."""
    if peek() != load(function + load(OFFSET)):
        return 0
    line, count = place_here(), increase(COUNT, 1)
    own = ROWS + (count & MASK) * ROW
    store(own, 0)
    store(own + 8, load(row + 8))
    store(own + 16, load(row + 16))
    store(own + 24, load(row + 24) * BILLION + load(row + 32))
    store(own + 32, load(row + 40))
    store(own + 40, load(row + 56))
    store(own + 48, line)
    store(own, count + 1)
    return 1


class WithoutNode:
    """Rows of such calls, for one recording."""

    def __init__(self) -> None:
        self._reader = Reader(_rows, _state, CALL_STAMP)

    def read(self) -> Ints:
        """Those since the last reading."""
        rows, _ = self._reader.read()
        return rows
