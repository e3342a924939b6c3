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
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Final

import numpy as np

from gradscope.machine_code.callables import NONE, Callables
from gradscope.machine_code.interpreter import PYTHON, as_int, from_int
from gradscope.machine_code.language import External, increase, load, store

GIVEN, DONE, AWAKE = 0, 128, 192
"""Where counts are, and whether the thread is awake, in bytes: apart, as two cores want them."""
LOOKS: Final = 60_000
"""So often it is looked for more, which takes some 300 microseconds."""
UNLOCKED: Final = 1_200
"""After so many more looks who gave a piece has given back Python's lock."""
YIELDS: Final = 300
"""So often it is looked whether a piece is done, which takes some 100 microseconds."""

let_go = External(PYTHON, "PyEval_SaveThread", 0)
take_back = External(PYTHON, "PyEval_RestoreThread", 1, nothing=True)
give_way = External(ctypes.CDLL(None), "sched_yield", 0, half=True)


def rest(self: int, nothing: int) -> int:
    """Tell that a piece is done, and wait a moment for the next one."""
    counts, left = as_int(self), LOOKS
    thread = let_go()
    store(counts + AWAKE, 1)
    done = increase(counts + DONE, 1) + 1
    give_way()
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
    counts, left = as_int(self), YIELDS
    if load(counts + DONE) < load(counts + GIVEN):
        thread = let_go()
        while left > 0 and load(counts + DONE) < load(counts + GIVEN):
            give_way()
            left -= 1
        take_back(thread)
    return from_int(0)


class Counts:
    """Of one thread that works for others."""

    def __init__(self) -> None:
        self.words = np.zeros(AWAKE // 8 + 8, np.int64)
        self.words[DONE // 8] = -1  # it has told nothing yet
        self.rest: Callable[[], object] = _callables().over(rest, self)
        self.until_done: Callable[[], object] = _callables().over(until_done, self)

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


@cache
def _callables() -> Callables:
    return Callables({rest: NONE, until_done: NONE})
