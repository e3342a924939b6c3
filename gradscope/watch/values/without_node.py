"""Calls without a node whose result is not finite: preparation of data, metrics.

No traversal reaches them, so their results would have no origin. A call has created no node if the
number of the next node is the same before and after it. Only here the calling line is determined
(Note [Lines from inside] in called/call_places.py): finite results cost nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gradscope.machine_code.language import Address, increase, load, store
from gradscope.machine_code.ring import Reader
from gradscope.watch.called import made, observer as calls
from gradscope.watch.called.call_places import place_here
from gradscope.watch.called.call_rows import Ints
from gradscope.watch.values.ring_rows import CALL_STAMP

CAPACITY, ROW = 1 << 12, 8 * 8
_rows = np.zeros((CAPACITY, 8), np.int64)
_state = np.zeros(1, np.int64)
ROWS, COUNT = Address(_rows.ctypes.data, "bad_calls"), Address(_state.ctypes.data, "bad_count")
MASK, BILLION = CAPACITY - 1, 1_000_000_000
OFFSET = calls.OFFSET


peek: Any = None  # at::sequence_number::peek


def ready() -> None:
    """Prepare the number of the next node, as for recorded results."""
    global peek  # noqa: PLW0603 -- compiled code names it
    peek = made.peek


def put_call(function: int, row: int) -> int:
    """Write a row for this call, which has one among calls, if it created no node."""
    sequence = load(function + load(OFFSET))
    if sequence >= 0 and peek() != sequence:
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
    """Reads the rows of such calls, for one recording."""

    def __init__(self) -> None:
        self._reader = Reader(_rows, _state, CALL_STAMP)

    def read(self) -> Ints:
        """The rows since the last reading."""
        rows, _ = self._reader.read()
        return rows
