"""Threads that stay awake for a moment after their work: more may come, and to wake one takes long.

# Note [Staying awake]
A thread that waits in a queue sleeps, its core rests, and both take 25 microseconds to wake, there
and back: as long as many kernels. So who waits looks again and again for a moment, without Python's
lock. What it looks at are two counts, how many pieces were handed over and how many are done. They
are hints and nothing else: what is to be done comes by the queue, from which it is taken in any
case. The thread that waits for work gives way to nobody meanwhile: other libraries' threads spin,
too, and would not give the core back for milliseconds, while a thread that is woken gets it at
once. But it does when it has told that its piece is done: who waits for that may wait for this very
core, on which a thread that slept is woken at times. The caller, who has to go on as soon as can
be, gives way, too, perhaps to that thread.

Python's lock is waited for asleep, too. Who hands over a piece still has it until its own kernel
begins, so who comes for the piece waits for so long before it asks for the lock; and that a piece
is done is told after the lock was given back.

# Note [Which core a thread wakes on]
Linux wakes a thread on the core of who wakes it if it takes no other one for idle, and in a virtual
machine it takes none for idle that rests: there a thread that slept came to the caller's own core,
waited until the caller was done, and two threads took longer than one. And a caller that slept may
come to the core on which a thread is looking for work. So a thread is told to run on any core but
the one its caller is on, when that has become another one. Where that can't be asked, nothing is.
"""

from __future__ import annotations

import ctypes
import os
from _thread import get_native_id
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from time import CLOCK_MONOTONIC
from typing import Final

import numpy as np

from gradscope.machine_code.callables import NONE, Callables
from gradscope.machine_code.interpreter import PYTHON, as_int, from_int
from gradscope.machine_code.language import External, increase, load, store

GIVEN, DONE, AWAKE, ITS_CLOCK, CALLERS_CLOCK = 0, 128, 192, 256, 320
"""Where counts are, whether the thread is awake, and times, in bytes: apart, for two cores."""
AWAKE_FOR: Final = 500_000
"""So many nanoseconds a thread looks for more."""
LOOKS: Final = 64
"""So often between two looks at the clock."""
UNLOCKED: Final = 1_200
"""After so many more looks who gave a piece has given back Python's lock."""
PATIENT_FOR: Final = 200_000
"""So many nanoseconds it is looked whether a piece is done."""

let_go = External(PYTHON, "PyEval_SaveThread", 0)
take_back = External(PYTHON, "PyEval_RestoreThread", 1, nothing=True)
clock_gettime = External(ctypes.CDLL(None), "clock_gettime", 2, half=True)
give_way = External(ctypes.CDLL(None), "sched_yield", 0, half=True)


def rest(self: int, nothing: int) -> int:
    """Tell that a piece is done, and wait a moment for the next one."""
    counts, left = as_int(self), 0
    thread = let_go()
    store(counts + AWAKE, 1)
    done = increase(counts + DONE, 1) + 1
    give_way()
    end = time_at(counts + ITS_CLOCK) + AWAKE_FOR
    while left == 0 and time_at(counts + ITS_CLOCK) < end:
        left = LOOKS
        while left > 0 and increase(counts + GIVEN, 0) <= done:
            left -= 1
    if left > 0:
        left = UNLOCKED
        while left > 0 and increase(counts + GIVEN, 0) > done:
            left -= 1
    else:
        store(counts + AWAKE, 0)
    take_back(thread)
    return from_int(0)


def until_done(self: int, nothing: int) -> int:
    """Wait a moment until all that was handed over is done."""
    counts = as_int(self)
    if load(counts + DONE) < load(counts + GIVEN):
        thread = let_go()
        end = time_at(counts + CALLERS_CLOCK) + PATIENT_FOR
        while load(counts + DONE) < load(counts + GIVEN) and (
            time_at(counts + CALLERS_CLOCK) < end
        ):
            give_way()
        take_back(thread)
    return from_int(0)


def time_at(clock: int) -> int:
    """The time in nanoseconds, which is put there on the way."""
    clock_gettime(CLOCK_MONOTONIC, clock)
    return load(clock) * 1_000_000_000 + load(clock + 8)


class Counts:
    """Of one thread that works for others."""

    def __init__(self) -> None:
        self.words = np.zeros(CALLERS_CLOCK // 8 + 8, np.int64)
        self.words[DONE // 8] = -1  # it has told nothing yet
        self.rest: Callable[[], object] = _callables().over(rest, self)
        self.until_done: Callable[[], object] = _callables().over(until_done, self)
        self.thread: int | None = None
        self.away_from = -1

    def begin(self) -> None:
        """Called by the thread itself, before anything else."""
        self.thread = get_native_id()

    def keep_away(self) -> None:
        """See that the thread runs, and wakes, on another core than the caller."""
        core = _core()
        if core != self.away_from and self.thread is not None:
            self.away_from = core
            with suppress(OSError):  # not allowed, or the thread has ended
                if others := os.sched_getaffinity(0) - {core}:
                    os.sched_setaffinity(self.thread, others)

    def is_awake(self) -> bool:
        """Whether the thread works, or looks for work."""
        return bool(self.words[AWAKE // 8])

    def given(self) -> None:
        """One more piece was put into the thread's queue."""
        self.words[GIVEN // 8] += 1

    def taken_back(self) -> None:
        """The last one was not taken, and is no more in the queue."""
        self.words[GIVEN // 8] -= 1
        self.words[AWAKE // 8] = 0


def _core() -> int:
    """Which core the caller is on; -1 where a thread can't be told where to run."""
    return _CORE() if _CORE is not None else -1


_CORE: Final[Callable[[], int] | None] = (
    getattr(ctypes.PyDLL(None), "sched_getcpu", None) if hasattr(os, "sched_setaffinity") else None
)


@cache
def _callables() -> Callables:
    return Callables({rest: NONE, until_done: NONE})
