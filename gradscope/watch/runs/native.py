"""Observes runs natively: the rows of the observer, by backward."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradscope.watch import observer as at
from gradscope.watch.listener import NO_RUNS, BackwardCall, BackwardRuns, ranges
from gradscope.watch.runs.engine_threads import task_here
from gradscope.watch.runs.of_tasks import (
    UNKNOWN,
    has_columns,
    of_columns,
    outermost,
    outermost_on_threads,
    task_numbers,
)

Ints = NDArray[np.int64]

ENOUGH = 1 << 14
"""Number of rows that are read at once, if they were not requested before."""


class _Local(threading.local):
    """State of a thread: its number, and its running backwards."""

    def __init__(self) -> None:
        self.thread = threading.get_ident()
        self.all_ran: list[BackwardRuns] = []


class NativeRunObserver:
    """Runs recorded by the native observer, for all threads in one table.

    The runs of a backward are read on request, with those of all backwards that have ended since.
    """

    def __init__(self, observer: at.Observer) -> None:
        self._observer = observer
        self._local = _Local()
        self._lock = threading.RLock()
        self._open: list[BackwardRuns] = []  # of all threads
        self._unread: list[BackwardRuns] = []
        self._assigned: set[int] = set()  # PyTorch's numbers of backwards that ended among others
        self._reads = self._read  # one bound method for all backwards

    def start(self) -> None:
        self._observer.start()

    def stop(self) -> None:
        self._observer.stop()

    def begins(self, asked: BackwardCall | None = None) -> None:  # noqa: ARG002 -- for hooks
        observer, local = self._observer, self._local
        with self._lock:
            place = observer.place()
            if not self._open and place > ENOUGH:
                self._read()
                observer.again()
                place = observer.place()
            ran = BackwardRuns(self._reads, place, local.thread)
            ran.outermost = task_here() < 0
            self._open.append(ran)
            local.all_ran.append(ran)

    def ends(self, *, failed: bool, handed: Sequence[Any] = ()) -> BackwardRuns:  # noqa: ARG002 -- for hooks
        all_ran = self._local.all_ran
        ran = all_ran.pop()
        ran.last = last = self._observer.place()
        ran.many = last - ran.since
        if all_ran:
            all_ran[-1].inside += ((ran.since, ran.last),)
        with self._lock:
            self._open.remove(ran)
            self._unread.append(ran)
        return ran

    def so_far(self, *, running: bool) -> list[BackwardRuns]:
        with self._lock:
            opened = self._until_now()
            first = min((ran.since for ran in opened), default=0)
            rows = self._observer.rows(first, self._observer.place())
            numbers = task_numbers(opened, *_about(rows, first), self._assigned)
            found = []
            for ran in reversed(self._local.all_ran):
                number = numbers[opened.index(ran)]
                columns = _columns(rows[(rows[:, at.TASK] == number) & (rows[:, at.END] != 0)])
                found.append(of_columns(outermost_on_threads(columns)))
        if running and found:
            found[0].part = slice(0, max(found[0].part.stop - 1, 0))
        return found

    def _until_now(self) -> list[BackwardRuns]:
        """The running backwards, of all threads."""
        for ran in self._open:
            ran.last = self._observer.place()
        return [*self._open]

    def _read(self) -> None:
        """Determine the runs of backwards that have ended."""
        with self._lock:
            unread, self._unread = self._unread, []
            if not unread:
                return
            first = min(ran.since for ran in unread)
            rows = self._observer.rows(first, max(ran.last for ran in unread))
            kept = [ran for ran in unread if ran.last - first <= len(rows)]
            own = [np.flatnonzero(rows[:, at.THREAD] == t) for t in {ran.thread for ran in kept}]
            parts = [(mine, [r for r in kept if r.thread == rows[mine[0], at.THREAD]])
                     for mine in own if len(mine)]  # fmt: skip
            divided = [_whose(mine + first, all_ran) for mine, all_ran in parts]
            known = sum([np.count_nonzero(whose >= 0) for whose in divided])
            if known < np.count_nonzero(rows[:, at.TASK] >= 0):
                self._by_task(rows, first, kept)
                return
            for ran in kept:
                has_columns(ran, NO_RUNS)
            for (mine, all_ran), whose in zip(parts, divided, strict=True):
                _divide(rows[mine], whose, all_ran)

    def _by_task(self, rows: Ints, first: int, kept: Sequence[BackwardRuns]) -> None:
        """Assign rows of several threads. See Note [Runs of several threads]."""
        all_ran = [*kept, *self._until_now()]
        numbers = task_numbers(all_ran, *_about(rows, first), self._assigned)[: len(kept)]
        self._assigned = {*self._assigned, *numbers.tolist()} if self._open else set()
        for ran, number in zip(kept, numbers.tolist(), strict=True):
            own = rows[rows[:, at.TASK] == number] if number >= 0 else rows[:0]
            if number != UNKNOWN and own[:, at.END].all():
                has_columns(ran, outermost_on_threads(_columns(own)))


def _about(rows: Ints, first: int) -> tuple[Ints, Ints, Ints]:
    """The place, thread and graph task of each row."""
    return np.arange(first, first + len(rows)), rows[:, at.THREAD], rows[:, at.TASK]


def _columns(rows: Ints) -> Ints:
    """Rows of the observer as `RunColumns`."""
    columns = rows.T
    begin = columns[at.BEGIN] * 1_000_000_000 + columns[at.REST_OF_BEGIN]
    end = columns[at.END] * 1_000_000_000 + columns[at.REST_OF_END]
    return np.stack([begin, end, columns[at.SEQUENCE], columns[at.RUN], columns[at.THREAD]])


def _divide(rows: Ints, whose: Ints, all_ran: list[BackwardRuns]) -> None:
    """Assign the rows of a thread to its backwards."""
    order = np.argsort(whose, kind="stable")
    order = order[np.searchsorted(whose[order], 0) :]
    rows, whose = rows[order], whose[order]
    columns = _columns(rows)
    outer = outermost(whose, columns[0], columns[1])  # a node called in a hook runs inside another
    first = np.searchsorted(whose[outer], np.arange(len(all_ran) + 1))
    missing = np.append(0, np.cumsum(rows[outer, at.END] == 0))[first]
    found = columns[:, outer]
    whole, places = (missing[1:] == missing[:-1]).tolist(), first.tolist()
    for ran, is_whole, (since, behind) in zip(all_ran, whole, pairwise(places), strict=True):
        ran.columns, ran.part = (found, slice(since, behind)) if is_whole else (None, ran.part)


def _whose(places: Ints, all_ran: list[BackwardRuns]) -> Ints:
    """The index of the backward that each place belongs to, after sorting them; -1: none."""
    bounds = np.array([(each.since, each.last) for each in all_ran], np.int64)
    # Nested backwards come after outer ones, even with equal bounds: they ended earlier.
    order = np.lexsort((-np.arange(len(bounds)), -bounds[:, 1], bounds[:, 0]))
    all_ran[:] = [all_ran[place] for place in order.tolist()]
    whose = np.full(len(places), -1)
    first, behind = np.searchsorted(places, bounds[order]).T
    if (first[1:] >= behind[:-1]).all() and not any(each.inside for each in all_ran):
        many = behind - first
        whose[ranges(first, many)] = np.repeat(np.arange(len(many)), many)
        return whose
    for number, ran in enumerate(all_ran):
        whose[first[number] : behind[number]] = number
        for since, last in np.searchsorted(places, np.array(ran.inside).reshape(-1, 2)):
            whose[since:last] = -1
    return whose
