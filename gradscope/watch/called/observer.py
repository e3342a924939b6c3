"""ATen calls, seen from inside PyTorch: callbacks in machine code put down name and time.

# Note [Which calls]
A call that may make a node knows the number that the node would have; one that may not (grad mode
is off, or it runs inside such a call) has none, and is left out. In a backward the few are put down
besides that tell how gradients were added and taken over (`GRADIENTS`). What is put down is who,
when, and the address of the call's schema; names are read later. The table is a ring: who does not
read in time loses the oldest, and is told how many.
"""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from time import sleep
from typing import Any

import numpy as np
import torch

from gradscope.machine_code.language import Address, Compiled, External, increase, load, store
from gradscope.watch.called.rows import (
    BEGIN,
    END,
    EVALUATE,
    GRADIENTS,
    KIND,
    STAMP,
    TEXT,
    WORD,
    Read,
    name_at,
)
from gradscope.watch.observer import (
    MONOTONIC,
    SCOPES,
    Library,
    NotObservable,
    clock_gettime,
    looks_at,
    ready,
    sequence_offset,
)

FUNCTION = 0  # at::RecordScope
CAPACITY = 1 << 17
THREADS = 1 << 10
PATIENCE, A_MOMENT = 50, 1e-4

_rows = np.zeros((CAPACITY, 8), np.int64)
_state = np.zeros(10 + THREADS, np.int64)
_counted = memoryview(_state.data)  # it is quicker to read
ROWS, MASK = Address(_rows.ctypes.data, "calls"), CAPACITY - 1
COUNT = Address(_state.ctypes.data, "state_of_calls")
OFFSET, SCHEMA, VARIANT, ALL, A, B, C, D, E, INSIDE = (COUNT + 8 * n for n in range(1, 11))
NO_SCHEMA, LAST_THREAD = 0, THREADS - 1
_c = ctypes.CDLL(None)
pthread_self = External(_c, "pthread_self", 0)
thread: Any = None  # at::RecordFunction::currentThreadId


def _put_down(function: int, kind: int, word: int) -> int:
    """One row. Its stamp comes last: who reads sees by it that the row is whole."""
    count = increase(COUNT, 1)
    row = ROWS + (count & MASK) * 64
    store(row, 0)
    clock_gettime(MONOTONIC, row + 8)
    store(row + 24, word)
    store(row + 32, load(function + load(OFFSET)))
    store(row + 48, function)
    store(row + 56, kind)
    store(row + 40, pthread_self())
    store(row, count + 1)
    return count + 1


def _is_wanted(function: int, word: int) -> int:
    """Whether a call is put down that has a schema."""
    if load(function + load(OFFSET)) >= 0 or load(ALL):
        return 1
    if word == load(A) or word == load(B) or word == load(C) or word == load(D) or word == load(E):
        return load(INSIDE + 8 * (thread() & LAST_THREAD)) > 0
    return 0


def call_begins(function: int) -> int:
    """A call begins; the stamp of its row, if it has one."""
    word = load(function + load(SCHEMA))
    if load(function + load(VARIANT)) & 255 == NO_SCHEMA:
        word = load(word)
        if word == EVALUATE:
            increase(INSIDE + 8 * (thread() & LAST_THREAD), 1)
            return _put_down(function, BEGIN + TEXT, word)
        if load(function + load(OFFSET)) >= 0 or load(ALL):
            return _put_down(function, BEGIN + TEXT, word)
    elif _is_wanted(function, word):
        return _put_down(function, BEGIN, word)
    return 0


def call_ends(function: int) -> int:
    """It ended, whether by itself or by an exception; the stamp of its row, if it has one."""
    word = load(function + load(SCHEMA))
    if load(function + load(VARIANT)) & 255 == NO_SCHEMA:
        word = load(word)
        if word == EVALUATE:
            if load(INSIDE + 8 * (thread() & LAST_THREAD)) > 0:
                increase(INSIDE + 8 * (thread() & LAST_THREAD), -1)
            return _put_down(function, END + TEXT, word)
        if load(function + load(OFFSET)) >= 0 or load(ALL):
            return _put_down(function, END + TEXT, word)
    elif _is_wanted(function, word):
        return _put_down(function, END, word)
    return 0


def _call_begins(result: int, function: int) -> int:
    """There is nothing that its end is to be given."""
    store(result, 0)
    call_begins(function)
    return result


def _call_ends(function: int, given: int) -> int:
    call_ends(function)
    return given


class CallObserver:
    """Puts down calls from `start` to `stop`; `read` gives what is new. One in a process.

    `around`: other callbacks, which do all that these do, and look at what calls are given and
    return.
    """

    def __init__(self, *, all_calls: bool = False, around: tuple[int, int] | None = None) -> None:
        self._library, code = _ready()
        self._all = all_calls
        self._around = around or (code.address(_call_begins), code.address(_call_ends))
        self._looks = around is not None
        self.gradients = dict(zip(_state[5:10].tolist(), range(len(GRADIENTS)), strict=True))
        """Which of GRADIENTS the schema at an address is."""
        self._handle = 0
        self._next = int(_state[0])

    def start(self) -> None:
        """Let calls be put down from here on."""
        if not self._handle:
            _state[4] = self._all
            _state[10:] = 0
            looks = self._looks
            self._handle = self._library.observe(
                *self._around, FUNCTION, given=looks, results=looks
            )

    def stop(self) -> None:
        """No longer."""
        if self._handle:
            self._library.remove(self._handle)
            self._handle = 0

    def waiting(self) -> int:
        """How many rows are there to be read; CAPACITY at most are kept."""
        return _counted[0] - self._next

    def read(self) -> Read:
        """Whole rows, in order; where a thread is long in writing one, the rest comes next time."""
        last = int(_state[0])
        for patience in reversed(range(PATIENCE)):
            first = max(self._next, int(_state[0]) - CAPACITY)
            rows = _rows[np.arange(first, last) & MASK] if last > first else _rows[:0].copy()
            first_kept = max(first, int(_state[0]) - CAPACITY)  # others were overwritten meanwhile
            whole = rows[first_kept - first :, STAMP] == np.arange(first_kept + 1, last + 1)
            if whole.all() or not patience:
                many = len(whole) if whole.all() else int(np.argmin(whole))
                lost, self._next = first_kept - self._next, first_kept + many
                return Read(rows[first_kept - first :][:many], lost)
            sleep(A_MOMENT)
        raise AssertionError


@cache
def _ready() -> tuple[Library, Compiled]:
    """The library and the callbacks, calibrated."""
    global thread  # noqa: PLW0603 -- compiled code names it
    if not sys.platform.startswith("linux"):
        raise NotObservable("names of calls can be read on Linux only")
    library = ready()
    thread = library.thread
    offset = sequence_offset()
    _state[1:4] = offset, offset - 40, offset - 8
    _calibrate()
    code = Compiled([_call_begins, _call_ends])
    _kept.append(code)
    _check(library, code)
    return library, code


_kept: list[Compiled] = []  # callbacks may be called as long as the process lives


def _calibrate() -> None:
    """Whether a known call and a known run of the engine say their names where we look for them."""

    def program() -> None:
        with torch.enable_grad():
            x = torch.ones(1, requires_grad=True)
            y = torch.add(x, x).detach().clone().new_empty_strided((1,), (1,))
            y.fill_(0).add_(x).backward()

    try:
        found = _known(looks_at(FUNCTION, program))
    except (OSError, ValueError) as error:
        raise NotObservable(f"names of calls are not where they were expected: {error}") from None
    wanted = [(f"aten::{name}", "Tensor" if name[:3] == "add" else "") for name in GRADIENTS]
    if not all(name in found for name in wanted):
        raise NotObservable("names of calls are not where they were expected")
    _state[5:10] = [found[name] for name in wanted]


def _known(looks: list[list[int]]) -> dict[tuple[str, str], int]:
    """The schemas of calls by their names; all others must be texts."""
    schema, variant = (int(_state[place]) // 8 for place in (2, 3))
    schemas = [words[schema] for words in looks if words[variant] & 255 != NO_SCHEMA]
    return {name_at(each): each for each in schemas}


def _check(library: Library, code: Compiled) -> None:
    """Whether the engine's own functions are recognised, too."""

    def program() -> None:
        handle = library.observe(code.address(_call_begins), code.address(_call_ends), FUNCTION)
        try:
            with torch.enable_grad():
                torch.ones(1, requires_grad=True).neg().backward()
        finally:
            library.remove(handle)

    before = int(_state[0])
    looks_at(SCOPES - 1, program)
    rows = _rows[np.arange(before, int(_state[0])) & MASK]
    told = rows[(rows[:, WORD] == EVALUATE), KIND].tolist()
    if told != [BEGIN + TEXT, END + TEXT] * 2:
        raise NotObservable("the engine's functions do not say their names where expected")
