"""Observes runs with hooks before and after each node, using PyTorch's public API only."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Any

import numpy as np
import torch

from gradscope.watch.hooks.watched import Own
from gradscope.watch.listener import BackwardRuns
from gradscope.watch.python_walk import LEAF
from gradscope.watch.runs.of_tasks import (
    UNKNOWN,
    has_columns,
    of_columns,
    outermost_on_threads,
    task_numbers,
)

_task_here = torch._C._current_graph_task_id


@dataclass(slots=True)
class HookedRun:
    """The run of a node."""

    task: int  # PyTorch's number of the graph task
    thread: int
    number: int  # of the node
    sequence: int
    begin: int
    end: int = 0


class HookedRunObserver:
    """Observes runs with hooks before and after each node."""

    def __init__(self) -> None:
        self._local = threading.local()
        self._lock = threading.RLock()
        self._open: list[BackwardRuns] = []  # of all threads, in the order in which they began
        self._runs: list[HookedRun] = []  # since the first of them began
        self._assigned: set[int] = set()  # PyTorch's numbers of those that have ended since
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

    def begins(self) -> None:
        with self._lock:
            if not self._open:
                self._runs, self._assigned = [], set()
            ran = BackwardRuns(_is_complete, len(self._runs), threading.get_ident())
            ran.outermost = _task_here() < 0
            self._open.append(ran)

    def _begin(self, told: tuple[int, int], _grads: Any) -> None:
        if self._on and self._open:
            run = HookedRun(_task_here(), threading.get_ident(), *told, perf_counter_ns())
            self._running()[run.task] = run
            self._runs.append(run)

    def _end(self, told: tuple[int, int], _results: Any, _grads: Any) -> None:
        run = self._running().pop(_task_here(), None)
        if self._on and run is not None and run.number == told[0]:
            run.end = perf_counter_ns()

    def _running(self) -> dict[int, HookedRun]:
        """The last run of each graph task on this thread."""
        found: dict[int, HookedRun] = self._local.__dict__.setdefault("running", {})
        return found

    def _own(self) -> list[BackwardRuns]:
        """The running backwards of this thread."""
        return [ran for ran in self._open if ran.thread == threading.get_ident()]

    def ends(self, *, failed: bool) -> BackwardRuns:
        with self._lock:
            ran = self._own()[-1]
            self._assign(failed=failed, only=ran)
            self._open.remove(ran)
        return ran

    def so_far(self, *, running: bool) -> list[BackwardRuns]:
        with self._lock:
            self._assign(failed=False)
            found = [of_columns(r.columns) for r in reversed(self._own()) if r.columns is not None]
        if running and found:
            found[0].part = slice(0, max(found[0].part.stop - 1, 0))
        return found

    def _assign(self, *, failed: bool, only: BackwardRuns | None = None) -> None:
        """Determine the runs of running backwards."""
        for ran in self._open:
            ran.last = len(self._runs)
        table = np.array(
            [(r.begin, r.end, r.sequence, 0, r.thread, r.task) for r in self._runs], np.int64
        ).reshape(-1, 6).T  # fmt: skip
        place = np.arange(table.shape[1])
        numbers = task_numbers(self._open, place, table[4], table[5], self._assigned)
        for ran, number in zip(self._open, numbers.tolist(), strict=True):
            if only is None or ran is only:
                if only is not None:
                    self._assigned.add(number)
                columns = table[:5, table[5] == number]
                if failed and columns.size and not columns[1, -1]:
                    columns[1, -1] = perf_counter_ns()
                columns = columns[:, columns[1] != 0]
                ran.many = columns.shape[1]
                if number != UNKNOWN:
                    has_columns(ran, outermost_on_threads(columns))


def _is_complete() -> None:
    """Does nothing: the runs are assigned when the backward ends."""
