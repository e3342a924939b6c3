"""Worker threads that poll for a while after their work, since waking a thread is slow.

# Note [Staying awake]
A thread that waits in a queue sleeps, its core idles, and waking both takes 25 microseconds, there
and back: as long as many kernels. So a waiting thread polls for a while, without Python's lock (the
GIL). It polls two counts: how many pieces were given and how many are done. They are only hints:
the piece itself comes through the queue, from which it is taken in any case. A worker that waits
for work does not yield its core: threads of other libraries spin, too, and would not return the
core for milliseconds, while a woken thread gets it at once. But it yields once after reporting that
its piece is done: the waiting caller may need this very core, on which a sleeping thread is
sometimes woken. The caller, which should continue as soon as possible, also yields, perhaps to that
worker.

Threads sleep while they wait for Python's lock, too. The caller holds it from giving a piece until
its own kernel begins, so the worker waits that long before it takes the lock. A piece is reported
as done after the lock was released.

# Note [Which core a thread wakes on]
Linux wakes a thread on the waker's core if no other core counts as idle, and in a virtual machine
idle cores do not count: a sleeping worker came to the caller's own core, waited until the caller
was done, and two threads took longer than one. A caller that slept may also come to a worker's
core. So the affinity of a worker excludes the core of its caller, whenever that has changed.
Systems without this call are left alone.
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
"""Offsets in bytes of the counts, the awake flag and times; on separate cache lines."""
AWAKE_FOR: Final = 500_000
"""How long an idle worker keeps polling, in nanoseconds."""
LOOKS: Final = 64
"""Number of polls between two readings of the clock."""
UNLOCKED: Final = 1_200
"""Number of further polls after which the caller has released Python's lock."""
PATIENT_FOR: Final = 200_000
"""How long a caller polls for a piece to be done, in nanoseconds."""

let_go = External(PYTHON, "PyEval_SaveThread", 0)
take_back = External(PYTHON, "PyEval_RestoreThread", 1, nothing=True)
clock_gettime = External(ctypes.CDLL(None), "clock_gettime", 2, half=True)
give_way = External(ctypes.CDLL(None), "sched_yield", 0, half=True)


def rest(self: int, nothing: int) -> int:
    """Report that a piece is done, and poll for the next one."""
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
    """Poll for a while until all pieces that were given are done."""
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
    """The time in nanoseconds, which is also stored at this address."""
    clock_gettime(CLOCK_MONOTONIC, clock)
    return load(clock) * 1_000_000_000 + load(clock + 8)


class Counts:
    """The counts of one worker thread."""

    def __init__(self) -> None:
        self.words = np.zeros(CALLERS_CLOCK // 8 + 8, np.int64)
        self.words[DONE // 8] = -1  # nothing reported yet
        self.rest: Callable[[], object] = _callables().over(rest, self)
        self.until_done: Callable[[], object] = _callables().over(until_done, self)
        self.thread: int | None = None
        self.away_from = -1

    def begin(self) -> None:
        """Called by the thread itself, first of all."""
        self.thread = get_native_id()

    def keep_away(self) -> None:
        """Keep the thread off the caller's core."""
        core = _core()
        if core != self.away_from and self.thread is not None:
            self.away_from = core
            with suppress(OSError):  # not permitted, or the thread has ended
                if others := os.sched_getaffinity(0) - {core}:
                    os.sched_setaffinity(self.thread, others)

    def is_awake(self) -> bool:
        """Whether the thread works or polls."""
        return bool(self.words[AWAKE // 8])

    def given(self) -> None:
        """Count a piece that was put into the thread's queue."""
        self.words[GIVEN // 8] += 1

    def taken_back(self) -> None:
        """Uncount a piece that was removed from the queue again."""
        self.words[GIVEN // 8] -= 1
        self.words[AWAKE // 8] = 0


def _core() -> int:
    """The caller's core; -1 if threads cannot be assigned to cores."""
    return _CORE() if _CORE is not None else -1


_CORE: Final[Callable[[], int] | None] = (
    getattr(ctypes.PyDLL(None), "sched_getcpu", None) if hasattr(os, "sched_setaffinity") else None
)


@cache
def _callables() -> Callables:
    return Callables({rest: NONE, until_done: NONE})
