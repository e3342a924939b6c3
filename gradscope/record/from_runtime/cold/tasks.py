"""Rows of graph tasks: arguments, end, and exceptions."""

from __future__ import annotations

import sys
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from gradscope.record.notes.user_functions import name_of
from gradscope.record.script.tracebacks import described
from gradscope.trace.schema import events

if TYPE_CHECKING:
    from collections.abc import Callable

    from gradscope.record.from_runtime.cold.interned import ColdTexts
    from gradscope.record.from_runtime.error_lines.recent import Recent
    from gradscope.record.notes.log import Ints
    from gradscope.record.notes.positions.contexts import Contexts
    from gradscope.record.notes.sites import Sites


Note: TypeAlias = "Callable[..., int]"
"""Records an event: its kind, graph task, node, and up to four numbers."""


class TaskRows:
    """The part of the catalog that describes graph tasks."""

    base: int
    recent: Recent
    number_of_node: Callable[[Any], int]
    _contexts: Contexts
    next_number: Any
    _sites: Sites
    texts: ColdTexts

    def __init__(self) -> None:
        self.tasks: list[dict[str, Any]] = []
        self.ended_tasks: list[tuple[int, int, int]] = []
        self.dependencies: list[tuple[int, int, Ints, Ints]] = []
        self.on_task_end: Any = None

    def task_begin(
        self, note: Note, task: Any, root: Any, counts: Ints, length: int, *, pool: bool
    ) -> None:
        """Called when a task starts; `counts`: the numbers of its nodes, and their counts."""
        number = self.next_number()
        parent = task.parent
        info = task.exec_info or {}
        nodes, remaining = counts
        if len(nodes) and nodes.min() <= self.base:
            nodes = np.array([self.number_of_node(node) for node in task.dependencies])
        self.number_of_node(root)
        roots = [self.number_of_node(n) for n in task.graph_roots]
        inputs = [self.number_of_node(n) for n, _ in task.inputs]
        needed = [self.number_of_node(n) for n, e in info.items() if e.needed]
        captured = [self.number_of_node(n) for n, e in info.items() if e.captures]
        now = perf_counter_ns()  # after all nodes that existed before the recording are described
        called = self._sites.of_backward(sys._getframe(2), accumulates=task.accumulate_grad)
        self.recent.task(number, called)
        # Write the row first: another thread may be flushing the notes.
        self.tasks.append({
            "id": number,
            "roots": roots, "inputs": inputs, "needed": needed, "captured": captured,
            "keep_graph": task.keep_graph, "create_graph": task.create_graph,
            "accumulate_grad": task.accumulate_grad, "depth": task.reentrant_depth,
            "parent": self.base if parent is None else max(parent.record_nr, self.base),
            "thread": self._contexts.threads.here().id, "stack": called,
            "step": self._contexts.steps.id,
            "begin": now - self._contexts.start,
        })  # fmt: skip
        task.record_nr = number
        if parent is not None:
            depth, moved = task.reentrant_depth, int(pool)
            note(events.ReentrantEnter, task, task.parent_node, depth, moved, at=now)
        note(events.TaskBegin, task, None, at=now)
        self.dependencies.append((now, task.record_nr, nodes, remaining))
        if length >= 0:  # otherwise the queue reports it
            queue = self._contexts.threads.here().id
            note(events.Push, task, root, task.reentrant_depth, length, queue)

    def task_end(self, note: Note, task: Any) -> None:
        if task.record_nr <= self.base:  # began before the recording
            return
        error = task.error
        text = "" if error is None else described(error)
        now = perf_counter_ns()
        note(events.TaskEnd, task, None, int(error is not None), at=now)
        if task.parent is not None:
            note(events.ReentrantLeave, task, None, task.reentrant_depth, at=now)
        shown = self.texts[text]
        self.ended_tasks.append((task.record_nr, now - self._contexts.start, shown))
        if task.parent is None:
            self.on_task_end(creates=task.create_graph)

    def raised(self, error: BaseException) -> tuple[int, int]:
        """The text ids of an error's type and message."""
        message = described(error).partition(": ")[2]
        return self.texts[type(error).__name__], self.texts[message]

    def hook(self, hook: Any) -> tuple[int, int]:
        """The definition of a hook, and its name."""
        return self._sites.of_function(hook), self.texts[name_of(hook)]
