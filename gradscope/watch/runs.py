"""Observes natively which nodes a backward ran, in what order and when."""

from __future__ import annotations

import threading
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from gradscope.watch import observer as at
from gradscope.watch.listener import BackwardRuns, ranges
from gradscope.watch.public.hooked_runs import of_columns
from gradscope.watch.unseen import in_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gradscope.watch.called.observer import CallObserver
    from gradscope.watch.listener import BackwardCall

Ints = NDArray[np.int64]


class RunObserver(Protocol):
    """Observes runs. Backwards of a thread nest; each gets the runs that belong to no inner one."""

    def start(self) -> None: ...
    def stop(self) -> None: ...
    def begins(self, asked: BackwardCall | None = None) -> None:
        """Called when a backward begins on this thread; None: it is not recorded."""

    def ends(self, *, failed: bool, handed: Sequence[Any] = ()) -> BackwardRuns:
        """Called when it ended, and returned these gradients. Returns its runs."""

    def so_far(self, *, running: bool) -> list[BackwardRuns]:
        """The runs so far of this thread's running backwards, innermost first.

        `running`: leave out the last run, whose node is still active.
        """


ENOUGH = 1 << 14
"""Number of rows that are read at once, if they were not requested before."""


class _Local(threading.local):
    """State of a thread: its number in PyTorch, and its running backwards."""

    def __init__(self, observer: at.Observer) -> None:
        self.thread = observer.thread()
        self.all_ran: list[BackwardRuns] = []


class NativeRunObserver:
    """Runs recorded by the native observer, for all threads in one table.

    The runs of a backward are read on request, with those of all backwards that have ended since.
    """

    def __init__(self, observer: at.Observer) -> None:
        self._observer = observer
        self._local = _Local(observer)
        self._lock = threading.RLock()
        self._under_way = 0  # on all threads
        self._unread: list[BackwardRuns] = []
        self._reads = self._read  # one bound method for all backwards

    def start(self) -> None:
        self._observer.start()

    def stop(self) -> None:
        self._observer.stop()

    def begins(self, asked: BackwardCall | None = None) -> None:  # noqa: ARG002 -- for hooks
        observer, local = self._observer, self._local
        with self._lock:
            place = observer.place()
            if not self._under_way and place > ENOUGH:
                self._read()
                observer.again()
                place = observer.place()
            self._under_way += 1
            local.all_ran.append(BackwardRuns(self._reads, place, local.thread))

    def ends(self, *, failed: bool, handed: Sequence[Any] = ()) -> BackwardRuns:  # noqa: ARG002 -- for hooks
        all_ran = self._local.all_ran
        ran = all_ran.pop()
        ran.last = last = self._observer.place()
        ran.many = last - ran.since
        if all_ran:
            all_ran[-1].inside += ((ran.since, ran.last),)
        with self._lock:
            self._under_way -= 1
            self._unread.append(ran)
        return ran

    def so_far(self, *, running: bool) -> list[BackwardRuns]:
        observer, local, now = self._observer, self._local, self._observer.place()
        inner = now
        found: list[BackwardRuns] = []
        with self._lock:
            for ran in reversed(local.all_ran):
                rows = observer.rows(ran.since, now)
                places = np.arange(ran.since, ran.since + len(rows))
                own = (rows[:, at.THREAD] == local.thread) & (places < inner)
                for since, last in ran.inside:
                    own &= (places < since) | (places >= last)
                columns = rows[own & (rows[:, at.END] != 0)].T
                begin = columns[at.BEGIN] * 1_000_000_000 + columns[at.REST_OF_BEGIN]
                end = columns[at.END] * 1_000_000_000 + columns[at.REST_OF_END]
                outer = _outermost(np.zeros(len(begin), np.int64), begin, end)
                table = np.stack([begin, end, columns[at.SEQUENCE], columns[at.RUN]])[:, outer]
                found.append(of_columns(table[:, :-1] if running and not found else table))
                inner = ran.since
        return found

    def _read(self) -> None:
        """Determine the runs of backwards that have ended."""
        with self._lock:
            unread, self._unread = self._unread, []
            if not unread:
                return
            first = min(ran.since for ran in unread)
            rows = self._observer.rows(first, max(ran.last for ran in unread))
            kept = [ran for ran in unread if ran.last - first <= len(rows)]
            for thread in {ran.thread for ran in kept}:
                own = np.flatnonzero(rows[:, at.THREAD] == thread)
                _divide(rows[own], own + first, [each for each in kept if each.thread == thread])


def _divide(rows: Ints, places: Ints, all_ran: list[BackwardRuns]) -> None:
    """Assign the rows of a thread to its backwards."""
    whose = _whose(places, all_ran)
    order = np.argsort(whose, kind="stable")
    order = order[np.searchsorted(whose[order], 0) :]
    columns, whose = rows[order].T, whose[order]
    begin = columns[at.BEGIN] * 1_000_000_000 + columns[at.REST_OF_BEGIN]
    end = columns[at.END] * 1_000_000_000 + columns[at.REST_OF_END]
    outer = _outermost(whose, begin, end)  # a node called in a hook runs inside another one
    first = np.searchsorted(whose[outer], np.arange(len(all_ran) + 1))
    missing = np.append(0, np.cumsum(columns[at.END][outer] == 0))[first]
    found = np.stack([begin, end, columns[at.SEQUENCE], columns[at.RUN]])[:, outer]
    whole, places = (missing[1:] == missing[:-1]).tolist(), first.tolist()
    for ran, is_whole, (since, behind) in zip(all_ran, whole, pairwise(places), strict=True):
        if is_whole:
            ran.columns, ran.part = found, slice(since, behind)


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


def _outermost(whose: Ints, begin: Ints, end: Ints) -> Ints:
    """The indices of runs, in order, that are not nested in another run of the same backward."""
    if not len(begin):
        return np.zeros(0, np.int64)
    since = int(begin.min())
    apart = whose * (max(int(end.max()), int(begin.max())) - since + 1)
    until = np.maximum.accumulate(apart + np.maximum(end - since, 0))
    inside = np.append(False, (apart + begin - since)[1:] < until[:-1])
    inside[1:] &= whose[1:] == whose[:-1]
    return np.flatnonzero(~inside)


def native_runs(
    why_not: str = "", around: tuple[int, int] | None = None
) -> tuple[NativeRunObserver | None, str]:
    """The native observer of runs, or why there is none; then hooks serve.

    `why_not`: why it cannot be native. `around`: other callbacks for it.
    """
    if why_not:
        return None, why_not
    try:
        return NativeRunObserver(at.Observer(around)), ""
    except Exception as error:  # noqa: BLE001 -- whatever this build is: hooks serve everywhere
        return None, in_words(error)


def calls(
    around: tuple[int, int] | None = None, *, whole: bool = False
) -> tuple[CallObserver | None, str]:
    """The observer of calls, or why there is none; `around`: other callbacks for it.

    `whole`: record all calls, including those that create no node.
    """
    try:
        from gradscope.watch.called.observer import CallObserver  # noqa: PLC0415 -- it compiles

        return CallObserver(all_calls=whole, around=around), ""
    except Exception as error:  # noqa: BLE001 -- as above: then names follow from those of nodes
        return None, in_words(error)
