"""How long notes of a recording wait before they are written."""

from __future__ import annotations

import sys
import time
from typing import NamedTuple

SHARE = 50
"""Flushes before the program waits take at most one part in this many of the time."""

ACCOUNT = 300_000_000
"""Nanoseconds that these flushes may take beyond that share."""

SOON, CALM = 50_000_000, 750_000_000
"""Nanoseconds after which notes are flushed at the next opportunity, however few there are."""

SELDOM = 100
"""While steps are left out, the wait is at least one part in this many of the time so far."""


class Moment(NamedTuple):
    """A time on the clock, how long this thread has computed by then, and how often it waited."""

    clock: int  # ns
    computed: int  # ns
    waits: int | None  # None: the system does not count them by thread


def moment() -> Moment:
    return Moment(time.perf_counter_ns(), time.thread_time_ns(), _waits())


def _waits() -> int | None:
    """Number of times that this thread gave up the processor: for a disk, or for a lock."""
    if sys.platform != "linux":
        return None
    import resource

    return resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw


def spent(began: Moment, ended: Moment) -> int:
    """Nanoseconds that work took of the program's time.

    Other processes may have taken the processor meanwhile. That does not count: on a busy machine
    the program itself is slower by the same factor.
    """
    if began.waits is None or ended.waits != began.waits:
        return ended.clock - began.clock
    return ended.computed - began.computed


class FlushPace:
    """How long notes wait: SOON at first, because the program may end early; finally CALM.

    Flushes before the program waits for other processes have an account of time: it grows with the
    time that passes, up to a limit. A call that is new may overdraw it, up to the same limit.
    """

    def __init__(self, start: int) -> None:
        self.last = self._start = start
        self._wait = SOON
        self.is_seldom = False
        """Whether only summaries of steps are waiting. Each flush makes a file larger, so the waits
        become longer in a long run."""
        self._left, self._looked, self._is_first = ACCOUNT, start, True

    def is_due(self) -> bool:
        """Whether the wait is over. If so, the next wait is four times as long."""
        now = time.perf_counter_ns()
        wait = max(self._wait, (now - self._start) // SELDOM) if self.is_seldom else self._wait
        due = now - self.last > wait
        if due:
            self._wait = min(4 * self._wait, CALM)
        return due

    def affords(self, now: int, *, is_new: bool) -> bool:
        """Whether there is time for a flush before the program waits."""
        self._left = min(self._left + (now - self._looked) // SHARE, ACCOUNT)
        self._looked = now
        return self._left > (-ACCOUNT if is_new else 0)

    def took(self, nanoseconds: int) -> None:
        """A flush before the program waited took this long, see `spent`.

        The first one writes much that is written once, in a thread of its own that a busy machine
        lets wait. It takes at most half of the account, or there would be none for a long time.
        """
        if self._is_first:
            nanoseconds, self._is_first = min(nanoseconds, ACCOUNT // 2), False
        self._left -= nanoseconds
