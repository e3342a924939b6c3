"""Threads that stay awake for a moment after their work: more may come, and to wake one takes long.

# Note [Staying awake]
A thread that waits in a queue sleeps, its core rests, and both take 25 microseconds to wake, there
and back: as long as many kernels. So who waits looks again and again for a moment, without Python's
lock, and gives way each time to whoever else wants the core. What it looks at are two counts, how
many pieces were handed over and how many are done. They are hints and nothing else: what is to be
done comes by the queue, from which it is taken in any case.

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
from gradscope.machine_code.language import External, increase, load

GIVEN, DONE = 0, 128
"""Where the two counts are, in bytes: far enough from each other for two cores."""
LOOKS: Final = 300
"""So often it is looked for more, which takes some 100 microseconds."""
UNLOCKED: Final = 16
"""After so many more looks who gave a piece has given back Python's lock."""

let_go = External(PYTHON, "PyEval_SaveThread", 0)
take_back = External(PYTHON, "PyEval_RestoreThread", 1, nothing=True)
give_way = External(ctypes.CDLL(None), "sched_yield", 0, half=True)


def rest(self: int, nothing: int) -> int:
    """Tell that a piece is done, and wait a moment for the next one."""
    counts, left = as_int(self), LOOKS
    thread = let_go()
    done = increase(counts + DONE, 1) + 1
    while left > 0 and load(counts + GIVEN) <= done:
        give_way()
        left -= 1
    if left > 0:
        left = UNLOCKED
        while left > 0:
            give_way()
            left -= 1
    take_back(thread)
    return from_int(0)


def until_done(self: int, nothing: int) -> int:
    """Wait a moment until all that was handed over is done."""
    counts, left = as_int(self), LOOKS
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
        self.words = np.zeros((GIVEN + DONE) // 8 + 8, np.int64)
        self.words[DONE // 8] = -1  # it has told nothing yet
        self.rest: Callable[[], object] = _callables().over(rest, self)
        self.until_done: Callable[[], object] = _callables().over(until_done, self)

    def given(self) -> None:
        """One more piece was put into the thread's queue."""
        self.words[0] += 1


@cache
def _callables() -> Callables:
    return Callables({rest: NONE, until_done: NONE})
