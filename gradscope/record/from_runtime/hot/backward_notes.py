"""Records backwards as reported by the runtime: implements `BackwardListener`."""

from __future__ import annotations

from threading import get_ident
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

import numpy as np

from gradscope.record.from_runtime.cold.history import place_of_saved
from gradscope.record.from_runtime.hot.own_hooks import OwnHook, running
from gradscope.record.from_runtime.hot.threads import ThreadNotes
from gradscope.record.notes.log import Log
from gradscope.runtime.core.state.thread import local
from gradscope.trace.schema import NONE, events
from gradscope.trace.shorthand.run_events import MODULE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gradscope.record.from_runtime.cold.catalog import Catalog
    from gradscope.record.from_runtime.error_lines.added import Answers
    from gradscope.record.notes.log import Ints
    from gradscope.record.notes.module_rows import ModuleRows
    from gradscope.record.session import Session
    from gradscope.runtime.core.graph.node import Node
    from gradscope.trace.schema import Event

TAKEN, BEGUN, ENDED = "taken", "begun", "ended"
"""Stages of a node that a thread is processing."""


class BackwardNotes(ThreadNotes):
    """Records runs of nodes and passed gradients in short form, and other events singly."""

    modules: ModuleRows

    def __init__(self, session: Session, catalog: Catalog) -> None:
        self.base = session.base
        self.catalog = catalog
        self.runs, self.moves, self.events = Log(6), Log(7), Log(9)
        self.event = self.events.note
        self.hooked: Callable[[Any, int], None] | None = None
        """Called with each hook that is about to be called, and its kind."""
        self.answers: Answers | None = None
        """Completes messages of errors."""
        self._attended: dict[
            Any, dict[int, tuple[Any, str]]
        ] = {}  # the last node of each task, by thread

    def ran(self, begin: int, end: int, task: Any, node: Any, popped: int, released: int) -> None:
        self.runs.note(begin, end, task.record_nr, node.record_nr, popped, released)
        task.last_told = node.record_nr

    def sent(
        self, begin: int, target: Any, index: int, nr: int, how: int, left: int, heap: Any
    ) -> None:
        self.moves.note(begin, target.record_nr, index, nr, how, left, len(heap))

    def counted(self, counts: dict[Node, int]) -> Ints:
        """The numbers of nodes, and in the second row their counts."""
        return np.array([[node.record_nr for node in counts], list(counts.values())], np.int64)

    def note(
        self, kind: type[Event], task: Any, node: Any, a: int = 0, b: int = 0, c: int = 0,
        d: int = 0, at: int = 0,
    ) -> int:  # fmt: skip
        """Record a single event; a, b, c, d depend on its kind. Returns its time."""
        if task is not None and task.record_nr <= self.base:  # began before the recording
            return at
        number = self.base if node is None else node.record_nr
        if number <= self.base and node is not None:
            number = self.catalog.node(node)
        at = at or perf_counter_ns()
        thread = self.contexts.threads.here().id
        task_nr = self.base if task is None else task.record_nr
        self.event(at, kind.CODE, thread, task_nr, number, a, b, c, d)
        return at

    def _attend(self, task: Any, node: Any, stage: str) -> None:
        """Store the stage of the node that this thread is processing."""
        self._attended.setdefault(task, {})[get_ident()] = node, stage

    def popped(self, task: Any, node: Any, at: int, length: int) -> None:
        self._attend(task, node, TAKEN)
        if length >= 0:  # otherwise it is already recorded
            self.note(events.Pop, task, node, length, self.contexts.threads.here().id, at=at)

    def node_begins(self, task: Any, node: Any, inputs: Sequence[Any]) -> None:
        self._attend(task, node, BEGUN)
        self.note(events.NodeBegin, task, node)

    def node_ends(self, task: Any, node: Any, outputs: Sequence[Any], released: Any) -> None:
        self._attend(task, node, ENDED)
        self.note(events.NodeEnd, task, node)
        if released:
            self.note(events.SavedReleased, task, node)

    def node_failed(self, task: Any, node: Any, error: BaseException) -> None:
        type, message = self.catalog.raised(error)
        self.fail(task, node)
        self.note(events.Error, task, node, type, message)

    def refused(self, slug: str, case: Any, lines: list[str]) -> bool:
        answers = self.answers
        if answers is not None:
            answers.complete(case, lines)
        return True

    def fail(self, task: Any, node: Any) -> None:
        """Record an exception at a node: in its function, before it, or after it."""
        attended, stage = self._attended.get(task, {}).get(get_ident(), (None, TAKEN))
        if task.last_told == node.record_nr > self.base:
            return  # its run is already recorded: the exception comes from a signal
        begin, popped, taken = task.taken
        if attended is not node:
            begun = taken is node
            length = popped if begun else len(local.state.queue)
            queue = self.contexts.threads.here().id
            self.note(events.Pop, task, node, length, queue, at=begin if begun else 0)
            info = task.exec_info
            if begun and (info is None or info[node].needed):
                self.note(events.NodeBegin, task, node, at=begin)
                stage = BEGUN
        if stage is BEGUN:
            self.note(events.NodeEnd, task, node, 1)
        if taken is node and stage is not TAKEN:  # otherwise a hook raised before it began
            self.runs.note(begin, perf_counter_ns(), task.record_nr, node.record_nr, 0, -1)

    def skipped(self, task: Any, node: Any) -> None:
        self.note(events.Skipped, task, node)

    def backward_begins(
        self, task: Any, root: Any, length: int, state: Any, *, pool: bool = False
    ) -> None:
        counts = self.counted(task.dependencies)
        self.catalog.task_begin(self.note, task, root, counts, length, pool=pool)

    def backward_ends(self, task: Any) -> None:
        self._attended.pop(task, None)
        self.catalog.task_end(self.note, task)

    def hook_begins(self, task: Any, node: Any, kind: int, index: int, hook: Any) -> None:
        running.ours = hook.__class__ is OwnHook
        if running.ours:
            return
        place, name = self.catalog.hook(hook)
        self.note(events.HookBegin, task, node, kind, index, place, name)
        if self.hooked is not None:
            self.hooked(hook, kind)

    def module_hook_begins(
        self, task: Any, node: Any, module: Any, kind: int, index: int, hook: Any
    ) -> None:
        running.ours = False
        place, name = self.catalog.hook(hook)
        told = kind
        if hasattr(module, "_modules"):  # a BackwardHook may belong to any object
            told += MODULE * (self.modules.id(module, NONE) + 1)
        self.note(events.HookBegin, task, node, told, index, place, name)
        if self.hooked is not None:
            self.hooked(hook, kind)

    def hook_ends(
        self, task: Any, node: Any, kind: int, index: int, replaced: bool, values: Any
    ) -> None:
        if running.ours:
            return
        self.note(events.HookEnd, task, node, kind, index, int(replaced))

    def capture(self, task: Any, node: Any, nr: int, grad: Any) -> None:
        self.note(events.Capture, task, node, nr)

    def accumulate(self, task: Any, node: Any, leaf: Any, how: int) -> None:
        self.note(events.Accumulate, task, node, self.catalog.id_of(leaf), how)

    def unpacked(self, node: Any, value: Any, slot: int | None) -> None:
        if node is not None:
            place = place_of_saved(node, value, slot)
            self.note(events.SavedUnpacked, local.state.task, node, place)

    def called_back(self, task: Any, function: Any) -> None:
        self.note(events.Callback, task, None, self.catalog.hook(function)[1])
