"""Observes runs with hooks before and after each node.

# Note [Whose run]
PyTorch runs the nodes of a device on a thread of its own. Its number of the graph task tells
backwards apart, but a call of the engine does not report the number. So the first hook that sees a
new number assigns it: to the innermost backward that this thread has called and that has no number;
on a thread of the engine, to the backward that has this node among its roots. If several have,
neither is observed.
"""

from __future__ import annotations

import threading
from itertools import count
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from gradscope.watch.hooks.watched import OwnLast
from gradscope.watch.listener import BackwardRuns, RunColumns, SeenGradients
from gradscope.watch.public.arrivals import HookedBackward, HookedNode
from gradscope.watch.python_walk import LEAF
from gradscope.watch.runs.engine_threads import task_here
from gradscope.watch.runs.of_tasks import of_columns
from gradscope.watch.unseen import unseen

if TYPE_CHECKING:
    import weakref
    from collections.abc import Callable, Sequence

    from gradscope.watch.in_place.faults import Faults
    from gradscope.watch.listener import BackwardCall, PythonNodeRecord
    from gradscope.watch.public.looks import PublicRing
    from gradscope.watch.public.node_samples import NodeSamples

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

    def __init__(
        self, faults: Faults, ring: PublicRing | None = None, samples: NodeSamples | None = None
    ) -> None:
        self.samples = samples  # if nodes are computed again
        self._guarded = faults.guarded
        self._ring = ring
        self._numbers = count(1)  # of runs
        self._open: list[HookedBackward] = []  # of all threads, in the order in which they began
        self._lock = threading.RLock()
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
            record.site,
        )
        node.register_prehook(OwnLast(self._begin, hooked))
        node.register_hook(OwnLast(self._end, hooked))

    def begins(self, asked: BackwardCall | None = None) -> None:
        task = HookedBackward(asked, self._ring)
        with self._lock:
            self._open.append(task)

    def _own(self) -> list[HookedBackward]:
        """The running backwards that this thread called."""
        here = threading.get_ident()
        return [task for task in self._open if task.caller == here]

    def _here(self, node: HookedNode | None = None) -> HookedBackward | None:
        """The backward that runs on this thread. `node`: the one that is about to run.

        See Note [Whose run]. None: it is not certain, or none is recorded.
        """
        number = task_here()
        with self._lock:
            for task in self._open:
                if task.task == number:
                    return task
            if node is None or number < 0:
                return None
            possible = [task for task in self._own() if task.task is None][-1:]
            if not possible:
                possible = [t for t in self._open if t.task is None and t.has_root(node)]
            if len(possible) == 1:
                possible[0].task = number
                return possible[0]
            for task in possible:
                task.certain = False
        return None

    def _begin(self, node: HookedNode, grads: Any) -> None:
        self._guarded(NOTED, self._begins, node, grads)

    def _end(self, node: HookedNode, returned: Any, _grads: Any) -> None:
        self._guarded(NOTED, self._ends, node, returned)

    def _begins(self, node: HookedNode, grads: Any) -> None:
        task = self._here(node) if self._on else None
        if task is not None:
            with unseen():
                task.begins(node, grads, perf_counter_ns(), next(self._numbers))
            if self.samples is not None:
                self.samples.begins(node, grads)

    def _ends(self, node: HookedNode, returned: Any) -> None:
        task = self._here() if self._on else None
        if task is not None:
            t = perf_counter_ns()
            if self.samples is not None:
                self.samples.returns(returned)
            with unseen():
                task.ends(node, returned, t)

    def replaced(self) -> None:
        """A hook of the program has replaced a gradient."""
        task = self._here()
        if task is not None:
            task.here().replaced = True

    def shows(self, node: Callable[[], int], grads: Sequence[Any], nr: int) -> None:
        """A hook of the program receives gradients, from this input of the next node on."""
        task = self._here() if self._on else None
        if task is not None:
            with unseen():
                task.shows(node(), grads, nr)

    def has_run(self, returned: Sequence[Any] = ()) -> None:
        """A node has run and returned this; hooks of the program are next."""
        task = self._here() if self._on else None
        if task is not None:
            t = perf_counter_ns()
            if self.samples is not None:
                self.samples.returns(returned)
            with unseen():
                task.has_run(t)

    def accumulated(self, leaf: Any) -> None:
        """A gradient is accumulated into this leaf, and hooks of the program are next."""
        task = self._here() if self._on else None
        if task is not None:
            with unseen():
                task.accumulated(leaf)

    def ends(self, *, failed: bool, handed: Sequence[Any] = ()) -> BackwardRuns:
        task = self._own()[-1]
        with self._lock:
            self._open.remove(task)
        if failed:
            for row in task.rows:
                row[1] = row[1] or perf_counter_ns()
        self._guarded("a backward ended", self._over, task, handed)
        if not task.certain:
            return BackwardRuns(thread=task.caller)
        ran = _stretch(task)
        if task.on_one_thread():  # else gradients may arrive in another order than hooks are called
            ran.gradients = SeenGradients(task.took, task.added)
        return ran

    def _over(self, task: HookedBackward, handed: Sequence[Any]) -> None:
        with unseen():
            task.over(handed)

    def so_far(self, *, running: bool) -> list[BackwardRuns]:
        found = [_stretch(task, over=True) for task in reversed(self._own())]
        if running and found:
            found[0].part = slice(0, max(found[0].part.stop - 1, 0))
        return found


def _stretch(task: HookedBackward, *, over: bool = False) -> BackwardRuns:
    """Its runs. `over`: only those that have ended."""
    rows = [row for row in task.rows if row[1] or not over]
    columns = np.array(rows, np.int64).reshape(-1, len(RunColumns._fields)).T.copy()
    ran = of_columns(columns, task.caller)
    ran.begun = task.begun
    return ran
