"""Observes runs with hooks before and after each node."""

from __future__ import annotations

import threading
from itertools import count
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from gradscope.watch.hooks.watched import Own
from gradscope.watch.listener import BackwardRuns, SeenGradients
from gradscope.watch.public.arrivals import HookedBackward, HookedNode
from gradscope.watch.python_walk import LEAF
from gradscope.watch.unseen import unseen

if TYPE_CHECKING:
    import weakref
    from collections.abc import Sequence

    from gradscope.watch.in_place.faults import Faults
    from gradscope.watch.listener import BackwardCall, PythonNodeRecord
    from gradscope.watch.public.looks import PublicRing

NOTED = "a node ran"


class Attends(Protocol):
    """Called with each new node, its record, those of its targets, and the leaf it accumulates."""

    def __call__(
        self,
        node: Any,
        record: PythonNodeRecord,
        targets: Sequence[tuple[Any, int]],
        leaf: weakref.ref[Any] | None,
    ) -> None: ...


class HookedRunObserver:
    """Observes runs, and gradients, with hooks before and after each node."""

    def __init__(self, faults: Faults, ring: PublicRing | None = None) -> None:
        self._guarded = faults.guarded
        self._ring = ring
        self._numbers = count(1)  # of runs
        self._local = threading.local()
        self._on = False

    def start(self) -> None:
        self._on = True

    def stop(self) -> None:
        self._on = False

    def attend(
        self,
        node: Any,
        record: PythonNodeRecord,
        targets: Sequence[tuple[PythonNodeRecord | None, int]],
        leaf: weakref.ref[Any] | None,
    ) -> None:
        sequence = node._sequence_nr()
        hooked = record.hooked = HookedNode(
            record.number,
            -1 if sequence == LEAF else sequence,
            [(None if target is None else target.hooked, nr) for target, nr in targets],
            leaf,
        )
        node.register_prehook(Own(self._begin, hooked))
        node.register_hook(Own(self._end, hooked))

    def _tasks(self) -> list[HookedBackward]:
        tasks: list[HookedBackward] = self._local.__dict__.setdefault("tasks", [])
        return tasks

    def begins(self, asked: BackwardCall | None = None) -> None:
        self._tasks().append(HookedBackward(asked, self._ring))

    def _begin(self, node: HookedNode, grads: Any) -> None:
        self._guarded(NOTED, self._begins, node, grads)

    def _end(self, node: HookedNode, returned: Any, _grads: Any) -> None:
        self._guarded(NOTED, self._ends, node, returned)

    def _begins(self, node: HookedNode, grads: Any) -> None:
        tasks = self._tasks()
        if self._on and tasks:
            with unseen():
                tasks[-1].begins(node, grads, perf_counter_ns(), next(self._numbers))

    def _ends(self, node: HookedNode, returned: Any) -> None:
        tasks = self._tasks()
        if self._on and tasks:
            t = perf_counter_ns()
            with unseen():
                tasks[-1].ends(node, returned, t)

    def replaced(self) -> None:
        """A hook of the program has replaced a gradient."""
        tasks = self._tasks()
        if tasks:
            tasks[-1].replaced = True

    def accumulated(self, leaf: Any) -> None:
        """A gradient is accumulated into this leaf, and hooks of the program are next."""
        tasks = self._tasks()
        if self._on and tasks:
            with unseen():
                tasks[-1].accumulated(leaf)

    def ends(self, *, failed: bool, handed: Sequence[Any] = ()) -> BackwardRuns:
        task = self._tasks().pop()
        if failed and task.rows and not task.rows[-1][1]:
            task.rows[-1][1] = perf_counter_ns()
        self._guarded("a backward ended", self._over, task, handed)
        ran = _stretch(task.rows)
        ran.gradients = SeenGradients(task.took, task.added)
        return ran

    def _over(self, task: HookedBackward, handed: Sequence[Any]) -> None:
        with unseen():
            task.over(handed)

    def so_far(self, *, running: bool) -> list[BackwardRuns]:
        found: list[BackwardRuns] = []
        for task in reversed(self._tasks()):
            over = [row for row in task.rows if row[1]]
            found.append(_stretch(over[:-1] if running and not found else over))
        return found


def _stretch(rows: list[list[int]]) -> BackwardRuns:
    return of_columns(np.array(rows, np.int64).reshape(-1, 5).T[:4].copy())


def of_columns(columns: Any) -> BackwardRuns:
    """The runs in these columns, which need not be read."""
    ran = BackwardRuns(_nothing)
    ran.columns, ran.many = columns, columns.shape[1]
    ran.part = slice(0, ran.many)
    return ran


def _nothing() -> None:
    """Does nothing: all runs were read."""
