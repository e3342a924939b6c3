"""Finds the Python line of a thread from inside a call of PyTorch.

# Note [Lines from inside]
This acquires the interpreter lock, which the thread has just released and needs again for the
result of the call. No Python code runs meanwhile: no signal is handled, nothing is collected. So
frames are recorded as code object and instruction, innermost first, up to the first one that is
known to belong to the program (at level `full`, all). Equal frames have the same number. Their
lines are determined later; code objects stay alive until then.
"""

from __future__ import annotations

import ctypes
from typing import Any, NamedTuple

import numpy as np

from gradscope.machine_code.interpreter import PYTHON, caller_of, code_of, drop, keep, offset_in
from gradscope.machine_code.language import Address, External, increase, load, store
from gradscope.watch.called.call_rows import NO_LINE

MOST_FRAMES, MOST_NEW = 64, 1 << 12
KEYS, PLACE = 1 << 15, 8 * (2 + 2 * MOST_FRAMES)

_new = np.zeros((MOST_NEW, 2 + 2 * MOST_FRAMES), np.int64)
_frames = np.zeros(2 * MOST_FRAMES, np.int64)
_users, _known = np.zeros(KEYS, np.int64), np.zeros(KEYS, np.int64)
_state = np.zeros(4, np.int64)  # number of new, user and known places; whether stacks are complete
NEW, FRAMES = Address(_new.ctypes.data, "places"), Address(_frames.ctypes.data, "frames")
USERS, KNOWN = Address(_users.ctypes.data, "users"), Address(_known.ctypes.data, "known_places")
MANY = Address(_state.ctypes.data, "state_of_places")
MANY_KNOWN, WHOLE, LAST_KEY, MIXING = MANY + 16, MANY + 24, KEYS - 1, 0x9E3779B97F4A7C15 >> 1
lock = External(PYTHON, "PyGILState_Ensure", 0, half=True)
unlock = External(PYTHON, "PyGILState_Release", 1, nothing=True)
state_here = External(PYTHON, "PyGILState_GetThisThreadState", 0)
stop_collecting = External(PYTHON, "PyGC_Disable", 0, half=True)
collect_again = External(PYTHON, "PyGC_Enable", 0, half=True)
frame_here = External(PYTHON, "PyEval_GetFrame", 0)


def cell(keys: int, key: int) -> int:
    """The cell of a key: the one that contains it, or the empty one where it belongs."""
    place = (key ^ (key >> 17)) & LAST_KEY
    there = load(keys + 8 * place)
    while there != 0 and there != key:  # noqa: PLR1714 -- compiled code has no sets
        place = (place + 1) & LAST_KEY
        there = load(keys + 8 * place)
    return keys + 8 * place


def place_here() -> int:
    """The number of this thread's current place; NO_LINE: it runs no Python code."""
    if state_here() == 0:
        return NO_LINE
    held = lock()
    collects = stop_collecting()  # an allocation might start a collection
    place = place_of(frame_here())
    if collects:
        collect_again()
    unlock(held)
    return place


def place_of(frame: int) -> int:
    """The number of a frame's place; the frame is borrowed, and the interpreter lock is held."""
    if frame == 0:
        return NO_LINE
    keep(frame)
    place, many = 1, 0
    while frame != 0:
        code = code_of(frame)
        drop(code)  # the frame holds a reference
        offset = offset_in(frame)
        store(FRAMES + 16 * many, code)
        store(FRAMES + 16 * many + 8, offset)
        many += 1
        place = (place ^ (code + offset)) * MIXING
        place ^= place >> 29
        goes_on = many < MOST_FRAMES and load(cell(USERS, code + offset)) == 0
        above = caller_of(frame) if goes_on or (load(WHOLE) and many < MOST_FRAMES) else 0
        drop(frame)
        frame = above
    known = cell(KNOWN, place)
    if load(known) == 0 and load(MANY) < MOST_NEW and load(MANY_KNOWN) < KEYS // 2:
        store(known, place)
        increase(MANY_KNOWN, 1)
        put_new(NEW + PLACE * increase(MANY, 1), place, many)
    return place


def put_new(row: int, place: int, many: int) -> int:
    """Add the row of a new place."""
    store(row, place)
    store(row + 8, many)
    i = 0
    while i < many:
        keep(load(FRAMES + 16 * i))
        store(row + 16 + 16 * i, load(FRAMES + 16 * i))
        store(row + 24 + 16 * i, load(FRAMES + 16 * i + 8))
        i += 1
    return row


class CallPlace(NamedTuple):
    """A place that a thread was at."""

    number: int
    frames: list[tuple[Any, int]]  # innermost first: code object and offset in it


def begin(*, whole: bool) -> None:
    """Forget all places, when a recording begins."""
    taken()
    if _state[1:3].any():
        _users[:] = _known[:] = 0
    _state[:] = 0, 0, 0, whole


def taken() -> list[CallPlace]:
    """The places that are new since the last call."""
    many, _state[0] = int(_state[0]), 0
    found = []
    for number, count, *words in _new[:many].tolist():
        codes = [ctypes.cast(word, ctypes.py_object).value for word in words[: 2 * count : 2]]
        for code in codes:
            _let_go(code)
        found.append(CallPlace(number, list(zip(codes, words[1 : 2 * count : 2], strict=True))))
    return found


def is_users(code: Any, offset: int) -> None:
    """Mark this instruction as one of the program: its callers are then not recorded."""
    key = id(code) + offset
    place = (key ^ (key >> 17)) & LAST_KEY
    while _users[place] not in {0, key}:
        place = (place + 1) & LAST_KEY
    if _state[1] < KEYS // 2:
        _state[1] += int(_users[place] == 0)
        _users[place] = key


_let_go = ctypes.PYFUNCTYPE(None, ctypes.py_object)(("Py_DecRef", PYTHON))
