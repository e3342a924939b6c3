"""What nodes keep of their making: records of numbers, which are used again and again.

# Note [Records]
In anomaly mode a node keeps something for what is said of it (`AnomalyMetadata`), which holds the
dict that Python shows as `node.metadata`. While we watch, that is a record: it has this dict where
PyTorch looks for it, untouched, and behind it our numbers. So no node costs an object of Python's,
nor a moment of the interpreter's lock. A record whose node is gone goes back to the others; its
memory is never given back, so that who has kept its address may look whether it is still the same.

Any thread may take one and give it back. A lock that is asked for in vain is let be: then one more
is made, or one less is used again.
"""

from __future__ import annotations

import ctypes
import os
import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradscope.machine_code.interpreter import PYTHON, as_int, call_nothing, drop
from gradscope.machine_code.language import Address, External, increase, load, store
from gradscope.machine_code.loaded import PROCESS
from gradscope.watch.in_place.compilers import aside
from gradscope.watch.native import ends
from gradscope.watch.native.ends import RECORDING as ENDS_OF, ended

# What PyTorch has there: its functions, a text and a parent that nobody uses, and the dict. Then
# ours. NEXT: of one that no node has.
TABLE, TEXT, PARENT, DICT = 0, 8, 40, 48
NUMBER, RECORDING, CONTEXT, SITE, TIME = range(56, 96, 8)
TOPOLOGICAL, MANY, FIRST, REST = range(96, 128, 8)
NEXT, LAST = CONTEXT, SITE
RECORD = 128
CHUNK = 1 << 9
"""So many are made at once."""

PATIENCE, POLITENESS = 1 << 10, 16
LOW_HALF = 0xFFFFFFFF


def stays(thing: Any) -> Any:
    """It, which is there as long as the process: nodes may outlive everything else."""
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
    """The number that a function of Python's says; 0: it raised.

    A RecursionError or MemoryError is counted. Others (Ctrl-C, or what another thread raised in
    this one) go on in the program.
    """
    gil = ensured()
    answer = call_nothing(function)
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
    released(gil)
    return number


def raise_again(nothing: int) -> int:  # noqa: ARG001 -- what it is called with
    """The interpreter is where the program can be told."""
    restore(load(ERROR), load(ERROR + 8), load(ERROR + 16))
    store(ERROR, 0)
    return -1


def locked() -> int:
    """Whether nobody else takes one or gives one back until `unlocked`."""
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
    """These, which are linked, are nobody's."""
    if locked():
        store(last + NEXT, load(UNUSED))
        store(UNUSED, first)
        unlocked()
    return 0


def taken() -> int:
    """A record; 0: there is none."""
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
    """Its node is gone."""
    if is_there() == 0:
        return record
    if load(record + RECORDING) == load(ENDS_OF):
        ended(record + NUMBER, load(record + NUMBER))
    store(record + NUMBER, 0)
    store(record + RECORDING, 0)
    metadata = load(record + DICT)
    if load(metadata) & LOW_HALF != 1 or items(metadata) != 0:  # somebody has put something there
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
    """How often Python could say nothing, so far."""
    return int(_state[8])


class NativeNodeRecords:
    """Makes records, when there are no more. One in a process, which stays."""

    def __init__(self, table: int, raises: int) -> None:
        self._table = table
        self._all: list[NDArray[np.int64]] = []
        self._more = self.more  # the state has its address
        _state[2], _state[6] = id(stays(self._more)), raises
        _state[9] = threading.main_thread().ident or 0

    @aside
    def more(self) -> int:
        """The address of one, that says which others are there besides."""
        rows = stays(np.zeros((CHUNK, RECORD // 8), np.int64))
        at = rows.ctypes.data + RECORD * np.arange(CHUNK)
        dicts = [stays({}) for _ in range(CHUNK)]
        rows[:, TABLE // 8], rows[:, TEXT // 8] = self._table, at + TEXT + 16
        rows[:, DICT // 8] = [id(each) for each in dicts]
        rows[1:-1, NEXT // 8] = at[2:]
        rows[0, [NEXT // 8, LAST // 8]] = at[1], at[-1]
        self._all.append(rows)
        return int(at[0])

    def alive(self, recording: int) -> NDArray[np.int64]:
        """Those of nodes that were made in a recording, are there, and no walk has met."""
        found = [np.zeros((0, RECORD // 8), np.int64)]
        for rows in self._all[:]:
            ours = (rows[:, RECORDING // 8] == recording) & (rows[:, NUMBER // 8] != 0)
            found.append(rows[ours & (rows[:, TOPOLOGICAL // 8] < 0)])
        return np.concatenate(found)


class NativeNodeRecord:
    """What is known of a node whose record this was when it was asked for."""

    __slots__ = ("_words", "number")

    def __init__(self, address: int) -> None:
        self._words = (ctypes.c_int64 * (RECORD // 8)).from_address(address)
        self.number = self._words[NUMBER // 8]

    @property
    def t(self) -> int:
        return self._words[TIME // 8]

    @property
    def topological(self) -> int:
        """How long the longest path from it is; -1: no walk has met it, or it is gone."""
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
    """In a child there is one thread, and nobody else has the lock."""
    _state[0] = 0


os.register_at_fork(after_in_child=_alone)
