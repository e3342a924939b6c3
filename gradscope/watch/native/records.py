"""Records of the creation of nodes, which are reused.

# Note [Records]
In anomaly mode a node has metadata (`AnomalyMetadata`), which holds the dict that Python shows as
`node.metadata`. While we watch, this is a record: it has the dict where PyTorch expects it,
followed by our numbers. So a node needs no Python object and no interpreter lock. The record of a
released node is reused; its memory is never freed, so that holders of its address can check whether
it still belongs to the same node.

Any thread may take and return records. If the lock is not available, it is not waited for: then a
new record is created, or one is not reused.
"""

from __future__ import annotations

import ctypes
import os
import threading
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradscope.machine_code.interpreter import PYTHON, as_int, call_nothing, drop
from gradscope.machine_code.language import Address, External, increase, load, store
from gradscope.machine_code.loaded import PROCESS
from gradscope.watch.in_place.compilers import aside
from gradscope.watch.native import ends
from gradscope.watch.native.ends import RECORDING as ENDS_OF, ended
from gradscope.watch.native.versions import DICT

# The fields of PyTorch: function table, an unused text and parent, the dict (DICT, which depends on
# the version), and room for more. Then ours. NEXT: the next unused record.
TABLE, OURS = 0, 72
NUMBER, RECORDING, CONTEXT, SITE, TIME = range(OURS, OURS + 40, 8)
TOPOLOGICAL, MANY, FIRST, REST = range(OURS + 40, OURS + 72, 8)
NEXT, LAST = CONTEXT, SITE
RECORD = OURS + 72
CHUNK = 1 << 9
"""Number of records that are created at once."""

PATIENCE, POLITENESS = 1 << 10, 16
LOW_HALF = 0xFFFFFFFF


def stays(thing: Any) -> Any:
    """Keep an object until the process ends, because nodes may outlive everything else."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))
    return thing


_state: NDArray[np.int64] = stays(np.zeros(10, np.int64))
stays(ends.keep())
LOCK = Address(_state.ctypes.data, "records")
(UNUSED, MORE, ERROR, RAISES, NO_ROOM, FAILED, MAIN) = (
    LOCK + 8 * place for place in (1, 2, 3, 6, 7, 8, 9)
)
_state[7] = id(stays((RecursionError, MemoryError)))

ensured = External(PYTHON, "PyGILState_Ensure", 0, half=True)
released = External(PYTHON, "PyGILState_Release", 1, nothing=True)
fetch = External(PYTHON, "PyErr_Fetch", 3, nothing=True)
restore = External(PYTHON, "PyErr_Restore", 3, nothing=True)
is_raised = External(PYTHON, "PyErr_ExceptionMatches", 1, half=True)
clear = External(PYTHON, "PyErr_Clear", 0, nothing=True)
pending = External(PYTHON, "Py_AddPendingCall", 2, half=True)
post = External(PYTHON, "PyThreadState_SetAsyncExc", 2, half=True)
this_thread = External(PYTHON, "PyThread_get_thread_ident", 0)
is_there = External(PYTHON, "Py_IsInitialized", 0, half=True)
new_dict = External(PYTHON, "PyDict_New", 0)
items = External(PYTHON, "PyDict_Size", 1)
others_first = External(PROCESS, "sched_yield", 0, half=True)


def answered(function: int) -> int:
    """The number that a Python function returns; 0: it raised."""
    gil = ensured()
    number = number_of(call_nothing(function))
    released(gil)
    return number


def number_of(answer: int) -> int:
    """The number that a Python function has returned; 0: it raised.

    A RecursionError or MemoryError is counted. Other exceptions (Ctrl-C, or one that another thread
    raised in this one) are raised in the program later. The caller holds the interpreter lock.
    """
    number = 0
    if answer != 0:
        number = as_int(answer)
        drop(answer)
    elif is_raised(load(NO_ROOM)) or load(ERROR) != 0:
        clear()
        increase(FAILED, 1)
    else:
        fetch(ERROR, ERROR + 8, ERROR + 16)
        if this_thread() == load(MAIN):
            pending(load(RAISES), 0)
        else:
            post(this_thread(), load(ERROR))
            restore(load(ERROR), load(ERROR + 8), load(ERROR + 16))
            store(ERROR, 0)
            clear()
    return number


def raise_again(nothing: int) -> int:  # noqa: ARG001 -- what it is called with
    """Called where the interpreter can raise the exception in the program."""
    restore(load(ERROR), load(ERROR + 8), load(ERROR + 16))
    store(ERROR, 0)
    return -1


def locked() -> int:
    """Whether the lock was acquired; it is held until `unlocked`."""
    tries = 0
    while tries < PATIENCE:
        if increase(LOCK, 1) == 0:
            return 1
        increase(LOCK, -1)
        tries += 1
        if tries > POLITENESS:
            others_first()
    return 0


def unlocked() -> int:
    return increase(LOCK, -1)


def given_back(first: int, last: int) -> int:
    """Return these linked records to the unused ones."""
    if locked():
        store(last + NEXT, load(UNUSED))
        store(UNUSED, first)
        unlocked()
    return 0


def taken() -> int:
    """An unused record; 0: there is none."""
    record = 0
    if locked():
        record = load(UNUSED)
        if record != 0:
            store(UNUSED, load(record + NEXT))
        unlocked()
    if record == 0:
        record = answered(load(MORE))
        if record != 0:
            given_back(load(record + NEXT), load(record + LAST))
    return record


def destroyed(record: int) -> int:
    """Called when the node of a record is released."""
    if is_there() == 0:
        return record
    if load(record + RECORDING) == load(ENDS_OF):
        ended(record + NUMBER, load(record + NUMBER))
    store(record + NUMBER, 0)
    store(record + RECORDING, 0)
    metadata = load(record + DICT)
    if load(metadata) & LOW_HALF != 1 or items(metadata) != 0:  # something was stored there
        gil = ensured()
        another = new_dict()
        if another == 0:
            clear()
        else:
            store(record + DICT, another)
            drop(metadata)
        released(gil)
        if another == 0:
            return record
    given_back(record, record)
    return record


def failed() -> int:
    """Number of times that Python has raised so far."""
    return int(_state[8])


class KnownMetadata(NamedTuple):
    """Metadata as PyTorch creates it: each record begins in the same way."""

    address: int
    words: NDArray[np.int64]

    @property
    def own(self) -> list[int]:
        """The indices of words that are addresses inside the metadata itself."""
        inside = (self.words >= self.address) & (self.words < self.address + OURS)
        return [int(place) for place in np.flatnonzero(inside)]


class NativeNodeRecords:
    """Creates records when there are no unused ones. One per process, which stays.

    `table`: their function table. `known`: metadata created by PyTorch.
    """

    def __init__(self, table: int, raises: int, known: KnownMetadata) -> None:
        self._table, self._known = table, known
        self._all: list[NDArray[np.int64]] = []
        self._more = self.more  # the state contains its address
        _state[2], _state[6] = id(stays(self._more)), raises
        _state[9] = threading.main_thread().ident or 0

    @aside
    def more(self) -> int:
        """The address of a new record, which refers to the other new ones."""
        rows = stays(np.zeros((CHUNK, RECORD // 8), np.int64))
        at = rows.ctypes.data + RECORD * np.arange(CHUNK)
        dicts = [stays({}) for _ in range(CHUNK)]
        rows[:, : OURS // 8] = self._known.words
        for place in self._known.own:
            rows[:, place] += at - self._known.address
        rows[:, TABLE // 8] = self._table
        rows[:, DICT // 8] = [id(each) for each in dicts]
        rows[1:-1, NEXT // 8] = at[2:]
        rows[0, [NEXT // 8, LAST // 8]] = at[1], at[-1]
        self._all.append(rows)
        return int(at[0])

    def alive(self, recording: int) -> NDArray[np.int64]:
        """Records of existing nodes that were created in a recording and not yet traversed."""
        found = [np.zeros((0, RECORD // 8), np.int64)]
        for rows in self._all[:]:
            ours = (rows[:, RECORDING // 8] == recording) & (rows[:, NUMBER // 8] != 0)
            found.append(rows[ours & (rows[:, TOPOLOGICAL // 8] < 0)])
        return np.concatenate(found)


class NativeNodeRecord:
    """The data of a node at the time when its record was read."""

    __slots__ = ("_words", "number")

    def __init__(self, address: int) -> None:
        self._words = (ctypes.c_int64 * (RECORD // 8)).from_address(address)
        self.number = self._words[NUMBER // 8]

    @property
    def t(self) -> int:
        return self._words[TIME // 8]

    @property
    def topological(self) -> int:
        """Length of the longest path from it; -1: no traversal has found it, or it was released."""
        is_same = self._words[NUMBER // 8] == self.number
        return self._words[TOPOLOGICAL // 8] if is_same else -1

    @property
    def many(self) -> int:
        return self._words[MANY // 8]

    @property
    def first(self) -> int:
        return self._words[FIRST // 8]

    @property
    def rest(self) -> range:
        since = self._words[REST // 8]
        return range(since, since + 2 * (self.many - 1), 2)


def _alone() -> None:
    """Called in a forked child, which has one thread: the lock is free."""
    _state[0] = 0


os.register_at_fork(after_in_child=_alone)
