"""Results of calls that created no node, with the lines of these calls.

These are data that is read, prepared or drawn at random: nodes save it, but no node created it. A
row contains the tensor that a call returned, its memory, the time, and the line (Note [Lines from
inside] in call_places.py). Only the outermost of nested calls is recorded, and none that created a
node: then the number of the next node has changed since the call began. Results are requested as
in Note [What a write returns] (writes.py). Internal calls of backwards and optimizers are excluded.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gradscope.machine_code.language import Address, increase, load, store
from gradscope.machine_code.ring import Reader
from gradscope.watch.called import writes
from gradscope.watch.called.call_places import place_here
from gradscope.watch.called.call_rows import Ints
from gradscope.watch.called.made_rows import CAPACITY, COLUMNS, STAMP
from gradscope.watch.called.writes import (
    A_TENSOR,
    ALLOWED,
    AT_COUNTER,
    AT_DATA,
    AT_SEQUENCE,
    AT_STORAGE,
    LAST_THREAD,
    LOW_HALF,
    RESULTS,
    WANTED,
    WANTED_BIT,
    is_writing,
    now,
)
from gradscope.watch.observer import pthread_self

_rows = np.zeros((CAPACITY, len(COLUMNS)), np.int64)
_state = np.zeros(2 + writes.THREADS, np.int64)
ROWS, MASK, ROW = Address(_rows.ctypes.data, "results"), CAPACITY - 1, 8 * len(COLUMNS)
COUNT = Address(_state.ctypes.data, "state_of_results")
IS_ON, DEEP, VALUE = COUNT + 8, COUNT + 16, 16
thread: Any = None  # at::RecordFunction::currentThreadId
peek: Any = None  # at::sequence_number::peek


def result_begins(function: int, inside: int) -> int:
    """Called when a call begins, inside this number of runs of the engine."""
    here = 8 * (thread() & LAST_THREAD)
    deep = load(DEEP + here)
    store(DEEP + here, deep + 1)
    if deep == 0 and inside == load(ALLOWED + here):
        wanted = function + load(WANTED)
        if load(wanted) & load(WANTED_BIT) == 0:
            store(wanted, load(wanted) ^ load(WANTED_BIT))
    return 0


def result_ends(function: int, schema: int, inside: int) -> int:
    """Called when a call ended, normally or with an exception; then it has no result."""
    here = 8 * (thread() & LAST_THREAD)
    deep = load(DEEP + here)
    if deep > 0:
        store(DEEP + here, deep - 1)
    value, end = load(function + load(RESULTS)), load(function + load(RESULTS) + 8)
    if deep != 1 or value == end or inside != load(ALLOWED + here):
        return 0
    sequence = load(function + load(AT_SEQUENCE))
    if (sequence >= 0 and peek() != sequence) or is_writing(schema):
        return 0
    line = place_here()
    while value < end:
        if load(value + 8) & LOW_HALF == A_TENSOR and load(value) != 0:
            put_result(schema, load(value), line, here)
        value += VALUE
    return line


def put_result(schema: int, tensor: int, line: int, here: int) -> int:
    """Write the row of a result. Its stamp is written last, so that readers see complete rows."""
    storage, data = load(tensor + load(AT_STORAGE)), 0
    if storage != 0:
        data = load(storage + load(AT_DATA))
    count = increase(COUNT, 1)
    row = ROWS + (count & MASK) * ROW
    store(row, 0)
    store(row + 8, now(here))
    store(row + 16, schema)
    store(row + 24, pthread_self())
    store(row + 32, tensor)
    store(row + 40, data)
    store(row + 48, load(tensor + load(AT_COUNTER)))
    store(row + 56, line)
    store(row, count + 1)
    return row


class MadeByCall:
    """Reads rows of such results; one per recording."""

    def __init__(self) -> None:
        self._reader = Reader(_rows, _state, STAMP)

    def start(self) -> None:
        """Start recording; calls that are running already are not recorded."""
        _state[2:] = 0
        _state[1] = peek is not writes.not_known

    def stop(self) -> None:
        """Stop recording."""
        _state[1] = 0

    def read(self) -> tuple[Ints, int]:
        """Rows since the last reading, and the number of lost rows."""
        return self._reader.read()
