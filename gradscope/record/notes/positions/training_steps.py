"""The training steps: when each begins and ends."""

from __future__ import annotations

import threading
from array import array
from bisect import bisect_right
from itertools import count
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

import numpy as np

from gradscope.record.notes.log import Ints, Log, put
from gradscope.trace.schema import NONE, Step

if TYPE_CHECKING:
    from collections.abc import Callable

    from gradscope.record.notes.positions.joined_rows import JoinedRows
    from gradscope.record.notes.positions.thread_places import ThreadPlaces
    from gradscope.trace.writer import Writer


NEVER = np.iinfo(np.int64).max
"""Later than any time."""
RECENT = 1 << 14
"""At least so many of the latest steps are found by their time: notes are read soon after."""


class Steps:
    """The current step, and the rows of all steps."""

    def __init__(
        self, writer: Writer, start: int, threads: ThreadPlaces, *, contexts_name_them: bool
    ) -> None:
        self._writer = writer
        self._start = start
        self._threads = threads
        self._contexts_name_them = contexts_name_them
        self.id = NONE
        self.in_contexts = NONE
        """The id that contexts use now; NONE if they include no step."""
        self.number = 0
        self.is_told = False
        """Whether an optimizer, or the program, reports the ends of steps."""
        self.may_be_left_out = False
        self.is_over = False
        """Whether the next step begins when autograd records again: see `backward_ended`."""
        self.on_begin: Callable[[int], None] | None = None
        """Called with the number of each new step, except with `begin_quietly`."""
        self.before: Callable[[int], None] | None = None
        """Likewise, before it begins."""
        self.joined: JoinedRows | None = None
        """Decides which steps share a row."""
        self.recent = 0, array("q")
        """The number of steps before the recent ones, and the start of each recent one."""
        self._ids = count()
        self._lock = threading.RLock()
        self._new = Log(3)  # each ends when the next begins
        self._open, self._end = NONE, NONE  # the last written step; the end of all

    def begin(self, number: int | None = None, at: int | None = None) -> None:
        """End the current step and begin the next, now or at an earlier time.

        `number`: None is the next number.
        """
        following = self.number + 1
        if self.before is not None:
            self.before(following if number is None else number)
        follows = (number is None or number == following) and at is None
        joined = self.joined
        if joined is not None and joined.joins() and follows:
            self.is_over = False
            with self._lock:
                self.number += 1
                joined.add(self.id)
        else:
            self.begin_quietly(number, at)
        if self.on_begin is not None:
            self.on_begin(self.number)

    def begin_quietly(self, number: int | None = None, at: int | None = None) -> None:
        """Like `begin`, without calling `on_begin`."""
        self.is_over = False
        with self._lock:  # steps of two threads begin one after the other
            now = perf_counter_ns() - self._start if at is None else at
            _, moments = self.recent
            if moments:
                now = max(now, moments[-1])
            self.id = next(self._ids)
            self.number = self.number + 1 if number is None else number
            self._new.note(self.id, self.number, now)
            moments.append(now)
        if self._contexts_name_them:
            self.in_contexts = self.id
            for state in list(self._threads.known):
                state.context = 0

    def at(self, t: Any) -> Any:
        """The ids of the steps that were running at these times; NONE before the recent ones."""
        before, moments = self.recent
        earliest = np.min(t, initial=NEVER)
        first = max(bisect_right(moments, earliest) - 1, 0)
        begins = np.array(moments[first:], np.int64)  # few: most times are recent
        found = np.searchsorted(begins, t, side="right") + (first - 1)
        return np.where(found == NONE, NONE, found + before)

    def finish(self) -> None:
        """End the current step at the end of the recording."""
        if self.id != NONE:
            self._end, self.id = perf_counter_ns() - self._start, NONE

    def flush(self) -> None:
        """Pass new steps to the writer."""
        new = self._new.take()
        put(self._writer, Step, ("id", "number", "begin"), new)
        put(self._writer, Step, ("id", "end"), self._ended(new), amend=True)
        with self._lock:
            before, moments = self.recent
            if len(moments) > 2 * RECENT:
                self.recent = before + len(moments) - RECENT, moments[-RECENT:]
        if self.joined is not None:
            with self._lock:
                joined = self.joined.take(self.id)
            put(self._writer, Step, ("id", "joined"), joined, amend=True)

    def _ended(self, new: Ints) -> Ints:
        """Steps that have ended, and when: when the next began, or at the end."""
        ids, ends = np.append(self._open, new[0]), new[2]
        if self._end == NONE:
            self._open, ids = int(ids[-1]), ids[:-1]
        else:
            self._open, ends = NONE, np.append(ends, self._end)
        ended = ids != NONE
        return np.stack([ids[ended], ends[ended]])
