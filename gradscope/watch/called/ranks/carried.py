"""Follows what collectives have written: which calls read it, and which of them create nodes.

# Note [Carried by memory]
The memory that a collective of the program has written gets a mark. A call that reads marked memory
and creates no node passes a mark on to the memory of its results: its row says which marks it has
read. A call that creates nodes ends this, because then edges say the rest. A mark is taken away
when a call returns new memory at the same address. Only the outermost of nested calls counts.

Likewise it is known for each result of a call that created nodes which memory it has: so memory
that is passed to a collective without its graph, as `.data` gives it, is recognized.

Marks are in a table by the address of the memory; the storage and its owner must be the same, too.
"""

from __future__ import annotations

import ctypes
from functools import cache
from threading import get_ident
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gradscope.machine_code.language import Address, Compiled, increase, load, store
from gradscope.machine_code.ring import Reader
from gradscope.watch.called import made, observer as calls
from gradscope.watch.called.call_places import place_here
from gradscope.watch.called.ranks.carried_columns import (
    CAPACITY,
    MOST_READ,
    READ,
    STAMP,
    WIDTH,
)
from gradscope.watch.called.writes import ALLOWED, is_writing, not_known, now
from gradscope.watch.native.saved_layout import saved_layout
from gradscope.watch.observer import VALUE, pthread_self

if TYPE_CHECKING:
    from gradscope.watch.called.call_rows import Ints

MOST_GIVEN = 8
"""Number of arguments whose memory is stored of a call."""

CELLS, NEAR = 1 << 12, 8
RESULTS_KNOWN = 1 << 13

_rows = np.zeros((CAPACITY, WIDTH), np.int64)
_marks = np.zeros((CELLS, 4), np.int64)  # memory, storage, mark, owner
_made = np.zeros((RESULTS_KNOWN, 6), np.int64)  # memory, storage, counter, sequence, thread, owner
_state = np.zeros(16, np.int64)
_threads = np.zeros((5 + MOST_READ + MOST_GIVEN, calls.THREADS), np.int64)
ROWS, ROW, MASK = Address(_rows.ctypes.data, "carried"), 8 * WIDTH, CAPACITY - 1
MARKS, MADE = Address(_marks.ctypes.data, "marks"), Address(_made.ctypes.data, "made_memory")
COUNT = Address(_state.ctypes.data, "state_of_carried")
(IS_ON, HAS_MARKS, AT_STORAGE, AT_DATA, AT_COUNTER, AT_HISTORY, AT_NODE, INPUTS, RESULTS, LIST,
 IN_LIST) = (COUNT + 8 * n for n in range(1, 12))  # fmt: skip
PLANE = 8 * calls.THREADS
DEPTH, SEQUENCE, GIVEN, MARKED, WITH_GRAPH = (
    Address(_threads.ctypes.data, "threads_of_carried") + PLANE * n for n in range(5)
)
READ_HERE, GIVEN_HERE = DEPTH + PLANE * 5, DEPTH + PLANE * (5 + MOST_READ)
FIRST_READ, LAST_CELL, LAST_KNOWN = 8 * READ, CELLS - 1, RESULTS_KNOWN - 1
MOST_MARKS, MOST_ARGUMENTS, NEARBY = MOST_READ, MOST_GIVEN, NEAR
OFFSET, SCHEMA, LAST_THREAD, LOW_HALF, A_TENSOR = (
    calls.OFFSET, calls.SCHEMA, calls.LAST_THREAD, 0xFFFFFFFF, 1,
)  # fmt: skip
INSIDE, ONE_VALUE = calls.INSIDE, VALUE
thread: Any = None  # at::RecordFunction::currentThreadId
peek: Any = None  # at::sequence_number::peek


def place_of_memory(data: int) -> int:
    """A number that spreads addresses of memory."""
    return (data >> 4) ^ (data >> 17)


def owner_of(storage: int) -> int:
    """What tells memory of an allocator from memory of an array, which no call returns."""
    return load(storage + load(AT_DATA) + 8) ^ (load(storage + load(AT_DATA) + 16) * 3)


def cell_of(data: int) -> int:
    """The address of the cell with this memory; 0: there is none."""
    place, i = place_of_memory(data), 0
    while i < NEARBY:
        at = MARKS + 32 * ((place + i) & LAST_CELL)
        there = load(at)
        if there == data:
            return at
        i = i + 1 if there != 0 else NEARBY
    return 0


def mark_of(storage: int) -> int:
    """The mark of a storage; 0: none."""
    at = cell_of(load(storage + load(AT_DATA)))
    if at == 0 or load(at + 8) != storage or load(at + 24) != owner_of(storage):
        return 0
    return load(at + 16)


def put_mark(storage: int, mark: int) -> int:
    """Mark a storage."""
    data = load(storage + load(AT_DATA))
    at, place, i = cell_of(data), place_of_memory(data), 0
    while at == 0 and i < NEARBY:
        free = MARKS + 32 * ((place + i) & LAST_CELL)
        if load(free + 16) == 0:
            at = free
        i += 1
    if at == 0:
        at = MARKS + 32 * (place & LAST_CELL)
    store(at + 16, 0)
    store(at, data)
    store(at + 8, storage)
    store(at + 24, owner_of(storage))
    store(at + 16, mark)
    store(HAS_MARKS, 1)
    return at


def is_new(data: int) -> int:
    """Called for memory that a call has returned and that has nothing of what was there before."""
    at = cell_of(data) if load(HAS_MARKS) else 0
    if at != 0:
        store(at + 16, 0)
    known = MADE + 48 * (place_of_memory(data) & LAST_KNOWN)
    if load(known) == data:
        store(known, 0)
    return 0


def is_made(tensor: int, storage: int, data: int, sequence: int) -> int:
    """Called for the result of a call that created nodes."""
    known = MADE + 48 * (place_of_memory(data) & LAST_KNOWN)
    store(known, 0)
    store(known + 8, storage)
    store(known + 16, load(tensor + load(AT_COUNTER)))
    store(known + 24, sequence)
    store(known + 32, pthread_self())
    store(known + 40, owner_of(storage))
    store(known, data)
    return known


def made_in(storage: int) -> int:
    """The address of what is known of the memory of a storage; 0: no node made it."""
    data = load(storage + load(AT_DATA))
    known = MADE + 48 * (place_of_memory(data) & LAST_KNOWN)
    same = data != 0 and load(known) == data and load(known + 8) == storage
    return known if same and load(known + 40) == owner_of(storage) else 0


def has_graph(tensor: int) -> int:
    """Whether a node created this tensor."""
    history = load(tensor + load(AT_HISTORY))
    return 0 if history == 0 else load(history + load(AT_NODE)) != 0


def takes(tensor: int, here: int) -> int:
    """Note an argument of a call."""
    storage = load(tensor + load(AT_STORAGE)) if tensor != 0 else 0
    if storage == 0 or load(storage + load(AT_DATA)) == 0:
        return 0
    given = load(GIVEN + here)
    if given < MOST_ARGUMENTS:
        store(GIVEN_HERE + PLANE * given + here, load(storage + load(AT_DATA)))
        store(GIVEN + here, given + 1)
    mark = mark_of(storage) if load(HAS_MARKS) else 0
    many, i, weight = load(MARKED + here), 0, 1
    if mark == 0 or many >= MOST_MARKS:
        return 0
    bit = has_graph(tensor)
    while i < many:
        same = load(READ_HERE + PLANE * i + here) == mark
        if same and (load(WITH_GRAPH + here) >> i) & 1 == bit:
            return 0
        i += 1
        weight = 2 * weight
    store(READ_HERE + PLANE * many + here, mark)
    store(WITH_GRAPH + here, load(WITH_GRAPH + here) + bit * weight)
    store(MARKED + here, many + 1)
    return mark


def carrying_begins(function: int) -> int:
    """Called when a call of an operator begins."""
    here = 8 * (thread() & LAST_THREAD)
    if increase(DEPTH + here, 1) != 0:
        return 0
    store(GIVEN + here, 0)
    store(MARKED + here, 0)
    store(WITH_GRAPH + here, 0)
    store(SEQUENCE + here, load(function + load(OFFSET)))
    value = load(function + load(INPUTS))
    end = value + ONE_VALUE * load(function + load(INPUTS) + 8)
    while value < end:
        kind, inner = load(value + 8) & LOW_HALF, load(value)
        if kind == A_TENSOR:
            takes(inner, here)
        elif kind == load(LIST) and inner != 0:
            last, inner = load(inner + load(IN_LIST) + 8), load(inner + load(IN_LIST))
            while inner < last:
                if load(inner + 8) & LOW_HALF == A_TENSOR:
                    takes(load(inner), here)
                inner += ONE_VALUE
        value += ONE_VALUE
    return 1


def carrying_ends(function: int) -> int:
    """Called when it ended, normally or with an exception; then it has no result."""
    here = 8 * (thread() & LAST_THREAD)
    depth = load(DEPTH + here)
    if depth <= 0:
        return 0
    store(DEPTH + here, depth - 1)
    schema, sequence = load(function + load(SCHEMA)), load(SEQUENCE + here)
    after, stamp = sequence, 0
    if sequence >= 0:
        after = peek()
    if depth == 1 and load(MARKED + here) > 0 and load(INSIDE + here) == load(ALLOWED + here):
        stamp = put_row(schema, sequence, after - sequence, here)
    value, end = load(function + load(RESULTS)), load(function + load(RESULTS) + 8)
    while value < end:
        kind, inner = load(value + 8) & LOW_HALF, load(value)
        if kind == A_TENSOR:
            gives(inner, schema, after, depth, stamp, here)
        elif kind == load(LIST) and inner != 0:
            last, inner = load(inner + load(IN_LIST) + 8), load(inner + load(IN_LIST))
            while inner < last:
                if load(inner + 8) & LOW_HALF == A_TENSOR:
                    gives(load(inner), schema, after, depth, stamp, here)
                inner += ONE_VALUE
        value += ONE_VALUE
    return stamp


def gives(tensor: int, schema: int, after: int, depth: int, stamp: int, here: int) -> int:
    """Note a result of a call, after which the next node has this number."""
    storage = load(tensor + load(AT_STORAGE)) if tensor != 0 else 0
    data = load(storage + load(AT_DATA)) if storage != 0 else 0
    if data == 0:
        return 0
    same, i, many = 0, 0, load(GIVEN + here)
    while i < many:
        if load(GIVEN_HERE + PLANE * i + here) == data:
            same = 1
        i += 1
    if same == 0:
        is_new(data)
    if depth != 1:
        return 0
    if after > load(SEQUENCE + here):
        if has_graph(tensor):
            is_made(tensor, storage, data, after - 1)
    elif stamp != 0 and (same == 0 or is_writing(schema)):
        put_mark(storage, stamp)
    return data


def put_row(schema: int, sequence: int, many: int, here: int) -> int:
    """Write the row of a call that has read marked memory. Returns its stamp, which is its mark."""
    line = place_here()
    count = increase(COUNT, 1)
    row, i = ROWS + (count & MASK) * ROW, 0
    store(row, 0)
    store(row + 8, now(here))
    store(row + 16, schema)
    store(row + 24, pthread_self())
    store(row + 32, line)
    store(row + 40, sequence)
    store(row + 48, many)
    store(row + 56, load(WITH_GRAPH + here))
    while i < MOST_MARKS:
        read = load(READ_HERE + PLANE * i + here) if i < load(MARKED + here) else 0
        store(row + FIRST_READ + 8 * i, read)
        i += 1
    store(row, count + 1)
    return count + 1


class MadeMemory(NamedTuple):
    """The node that made the memory of a tensor."""

    sequence: int
    counts_apart: bool  # the tensor has another version counter, as that of `.data`


class CarriedWrites:
    """Marks memory and reads the rows of calls; one per recording."""

    def __init__(self) -> None:
        self._code = _functions()
        self._reader = Reader(_rows, _state, STAMP)
        self._next = 0

    def start(self) -> None:
        """Start following; nothing is marked yet."""
        _state[2] = 0
        _marks[:], _made[:], _threads[:] = 0, 0, 0
        _state[1] = 1

    def stop(self) -> None:
        """Stop."""
        _state[1] = 0

    def marks(self, tensors: list[Any]) -> int:
        """Mark what a collective has written. Returns the mark, which is negative; 0: nothing."""
        storages = [storage for each in tensors if (storage := _storage(each))]
        if not storages:
            return 0
        self._next -= 1
        for storage in storages:
            self._code.put_mark(storage, self._next)
        return self._next

    def made(self, tensor: Any) -> MadeMemory | None:
        """The node of this thread that made the memory of a tensor; None: none is known."""
        storage = _storage(tensor)
        at = self._code.made_in(storage) if storage else 0
        if not at:
            return None
        _, _, counter, sequence, ident, _ = _made[(at - int(MADE)) // 48].tolist()
        if ident != int(self._code.thread()):
            return None
        own = ctypes.c_int64.from_address(tensor._cdata + int(_state[5])).value
        return MadeMemory(sequence, own != counter)

    def read(self) -> Ints:
        """The rows since the last reading."""
        rows, _ = self._reader.read()
        return rows


def _storage(tensor: Any) -> int:
    """The address of the storage of a plain tensor that has memory; 0 for others."""
    storage = ctypes.c_int64.from_address(tensor._cdata + int(_state[3])).value
    if not storage or not ctypes.c_int64.from_address(storage + int(_state[4])).value:
        return 0
    return int(storage)


class _Functions(NamedTuple):
    put_mark: Any
    made_in: Any
    thread: Any


def ready(inputs: int, results: int, list_kind: int, in_list: int) -> None:
    """Determine offsets. The arguments are offsets in a RecordFunction and in a list."""
    global thread, peek
    thread, peek = made.thread, made.peek
    found = saved_layout()
    plain = found.plain
    _state[3:12] = (
        8 * plain.storage, 8 * plain.data, found.counter, found.history, found.node, inputs,
        results, list_kind, in_list,
    )  # fmt: skip


def can_follow() -> bool:
    """Whether the offsets are known, and the number of the next node."""
    return bool(_state[3]) and peek is not None and peek is not not_known


@cache
def _functions() -> _Functions:
    code = Compiled([put_mark, made_in])
    _kept.append(code)
    kind = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
    one = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)
    return _Functions(kind(code.address(put_mark)), one(code.address(made_in)), get_ident)


_kept: list[Compiled] = []  # its functions may be called until the process ends
