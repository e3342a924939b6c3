"""Results of calls that created no node, with the lines of these calls.

These are data that is read, prepared or drawn at random: nodes save it, but no node created it. A
row contains the tensor that a call returned, its memory, the time, and the line (Note [Lines from
inside] in call_places.py). Only the outermost of nested calls is recorded, and none that created a
node: then the number of the next node has changed since the call began. Results are requested as
in Note [What a write returns] (writes.py). Internal calls of backwards and optimizers are excluded.
If asked, random numbers (`randn_like`) are measured: their bits tell whether ranks draw the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gradscope.machine_code.language import Address, increase, load, store
from gradscope.machine_code.ring import Reader
from gradscope.watch.called import writes
from gradscope.watch.called.call_places import place_here
from gradscope.watch.called.call_rows import Ints
from gradscope.watch.called.made_rows import (
    BYTES,
    CAPACITY,
    COLUMNS,
    FIRST,
    HASH,
    SIZE,
    STAMP,
)
from gradscope.watch.called.ranks.bits import hash_of, memory_of
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
    length_of,
    now,
)
from gradscope.watch.observer import pthread_self
from gradscope.watch.values.layout import INLINE
from gradscope.watch.values.measure import DIMS, PLACES

_rows = np.zeros((CAPACITY, len(COLUMNS)), np.int64)
_state = np.zeros(3 + writes.THREADS, np.int64)
ROWS, MASK, ROW = Address(_rows.ctypes.data, "results"), CAPACITY - 1, 8 * len(COLUMNS)
COUNT = Address(_state.ctypes.data, "state_of_results")
IS_ON, MEASURES, DEEP, VALUE = COUNT + 8, COUNT + 16, COUNT + 24, 16
SIZE_AT, HASH_AT, FIRST_AT, BYTES_AT = (8 * each for each in (SIZE, HASH, FIRST, BYTES))
ATEN_RA, ND = (int.from_bytes(each, "little") for each in (b"aten::ra", b"nd"))
"""How names of calls begin that draw random numbers."""
SHORTEST, TWO_BYTES, MOST_BYTES = len("aten::rand"), 0xFFFF, 1 << 16
INLINED = INLINE
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
    store(row + SIZE_AT, 0)
    store(row + HASH_AT, 0)
    if load(MEASURES) and is_draw(schema):
        put_drawn(tensor, row)
    store(row, count + 1)
    return row


def is_draw(schema: int) -> int:
    """Whether a call returns random numbers."""
    text = load(schema)
    named = length_of(schema) >= SHORTEST and load(text) == ATEN_RA
    return named and load(text + 8) & TWO_BYTES == ND


def put_drawn(tensor: int, row: int) -> int:
    """Write the size of the first dim, and the hash of the first bytes."""
    dims = load(tensor + load(PLACES + DIMS))
    if dims <= 0 or memory_of(tensor, row + FIRST_AT) == 0:
        return 0
    sizes = tensor + load(PLACES + DIMS) + 8
    if dims > INLINED:
        sizes = load(sizes)
    many = load(row + BYTES_AT)
    if many > MOST_BYTES:  # noqa: PLR1730 -- there is no min
        many = MOST_BYTES
    store(row + SIZE_AT, load(sizes))
    store(row + HASH_AT, hash_of(load(row + FIRST_AT), many))
    return row


class MadeByCall:
    """Reads rows of such results; one per recording."""

    def __init__(self) -> None:
        self._reader = Reader(_rows, _state, STAMP)
        self.measures = False  # whether random numbers are measured

    def start(self) -> None:
        """Start recording; calls that are running already are not recorded."""
        _state[3:] = 0
        _state[2] = self.measures
        _state[1] = peek is not writes.not_known

    def stop(self) -> None:
        """Stop recording."""
        _state[1] = 0

    def read(self) -> tuple[Ints, int]:
        """Rows since the last reading, and the number of lost rows."""
        return self._reader.read()
