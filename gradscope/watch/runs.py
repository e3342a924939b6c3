"""Which nodes a backward ran, in what order and when: natively, or by hooks on each node."""

from __future__ import annotations

import threading
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from gradscope.watch.hooks import Own
from gradscope.watch.walk import LEAF

if TYPE_CHECKING:
    from gradscope.watch.called.observer import CallObserver
    from gradscope.watch.called.results import Teller
    from gradscope.watch.observer import Observer

Ints = NDArray[np.int64]


class Ran(NamedTuple):
    """The runs of a backward's nodes, in order, on the thread that called it."""

    begin: Ints
    end: Ints
    sequence: Ints  # what the node said of itself; -1: an AccumulateGrad
    failed: bool  # the last of them raised

    def after(self, sequence: int) -> Ran:
        """The same behind the run of another node, which was over at once."""
        t = self.begin[:1] - 1
        begin, end = np.concatenate([t, self.begin]), np.concatenate([t, self.end])
        number = np.full(len(t), sequence)
        return Ran(begin, end, np.concatenate([number, self.sequence]), self.failed)


class Runs(Protocol):
    """Sees runs. Backwards of a thread nest, and each is told what ran in it and in no other."""

    def start(self) -> None: ...
    def stop(self) -> None: ...
    def attend(self, node: Any, number: int) -> None:
        """A walk has found this node."""

    def begins(self) -> None:
        """A backward begins on this thread."""

    def ends(self, *, failed: bool) -> Ran | None:
        """It ended. None: what ran in it was not seen, or not all of it."""


class _Stretch:
    """A backward under way: where its rows begin, and those of others inside it."""

    __slots__ = ("inside", "since")

    def __init__(self, since: int) -> None:
        self.since = since
        self.inside: list[tuple[int, int]] = []


class NativeRuns:
    """Runs as the native observer puts them down, for all threads in one table."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._local = threading.local()
        self._lock = threading.Lock()
        self._under_way = 0  # on all threads

    def start(self) -> None:
        self._observer.start()

    def stop(self) -> None:
        self._observer.stop()

    def attend(self, node: Any, number: int) -> None:
        pass

    def _stretches(self) -> list[_Stretch]:
        found: list[_Stretch] = self._local.__dict__.setdefault("stretches", [])
        return found

    def begins(self) -> None:
        with self._lock:
            if not self._under_way:
                self._observer.again()  # others may have run meanwhile, with nobody asking
            self._under_way += 1
            self._stretches().append(_Stretch(self._observer.place()))

    def ends(self, *, failed: bool) -> Ran | None:
        stretches = self._stretches()
        stretch = stretches.pop()
        last = self._observer.place()
        rows = self._observer.rows(stretch.since)
        if stretches:
            stretches[-1].inside.append((stretch.since, last))
        with self._lock:
            self._under_way -= 1
            if not self._under_way:
                self._observer.again()
        return None if rows is None else self._ran(rows, stretch, failed=failed)

    def _ran(self, rows: Ints, stretch: _Stretch, *, failed: bool) -> Ran | None:
        own = rows[:, 3] == self._observer.thread()
        for first, last in stretch.inside:
            own[first - stretch.since : last - stretch.since] = False
        seconds, nanoseconds, sequence, _, ends = rows[own].T
        depth = np.cumsum(1 - 2 * ends)  # a node called by hand in a hook runs inside another's run
        begin, end = (
            np.flatnonzero((ends == 0) & (depth == 1)),
            np.flatnonzero((ends == 1) & (depth == 0)),
        )
        if len(begin) != len(end):
            return None
        t = seconds * 1_000_000_000 + nanoseconds
        return Ran(t[begin], t[end], sequence[begin], failed)


class HookedRuns:
    """Runs as hooks before and after each node see them: this needs PyTorch's own methods only."""

    def __init__(self) -> None:
        self._local = threading.local()
        self._on = False

    def start(self) -> None:
        self._on = True

    def stop(self) -> None:
        self._on = False

    def attend(self, node: Any, number: int) -> None:
        sequence = node._sequence_nr()
        told = number, -1 if sequence == LEAF else sequence
        node.register_prehook(Own(self._begin, told))
        node.register_hook(Own(self._end, told))

    def _tasks(self) -> list[list[tuple[int, int, int, int]]]:
        found: list[list[tuple[int, int, int, int]]] = self._local.__dict__.setdefault("tasks", [])
        return found

    def begins(self) -> None:
        self._tasks().append([])

    def _begin(self, told: tuple[int, int], _grads: Any) -> None:
        tasks = self._tasks()
        if self._on and tasks:
            tasks[-1].append((perf_counter_ns(), 0, told[1], told[0]))

    def _end(self, told: tuple[int, int], _results: Any, _grads: Any) -> None:
        tasks = self._tasks()
        if self._on and tasks and tasks[-1]:
            begin, _, sequence, number = tasks[-1][-1]
            if number == told[0]:
                tasks[-1][-1] = begin, perf_counter_ns(), sequence, number

    def ends(self, *, failed: bool) -> Ran | None:
        rows = self._tasks().pop()
        if failed and rows and not rows[-1][1]:
            rows[-1] = rows[-1][0], perf_counter_ns(), *rows[-1][2:]
        table = np.array(rows, np.int64).reshape(-1, 4).T
        return Ran(table[0], table[1], table[2], failed)


def runs(*, native: bool) -> tuple[Runs, str]:
    """Who sees runs here, and why it is not the native observer, if it is not."""
    if not native:
        return HookedRuns(), "it was not wanted"
    try:
        from gradscope.watch.observer import Observer  # noqa: PLC0415 -- it compiles

        return NativeRuns(Observer()), ""
    except Exception as error:  # noqa: BLE001 -- whatever this build is: hooks serve everywhere
        return HookedRuns(), f"{type(error).__name__}: {error}"


def calls(teller: Teller | None) -> tuple[CallObserver | None, str]:
    """Who sees calls here, or why nobody does; `teller` is to be told of their results."""
    try:
        from gradscope.watch.called.observer import CallObserver  # noqa: PLC0415 -- it compiles

        return CallObserver(teller=teller), ""
    except Exception as error:  # noqa: BLE001 -- as above: then names follow from those of nodes
        return None, f"{type(error).__name__}: {error}"
