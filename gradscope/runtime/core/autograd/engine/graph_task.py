"""GraphTask: the state of one backward."""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, Any

from gradscope.runtime.core.state.thread import ThreadState, local

if TYPE_CHECKING:
    from gradscope.runtime.core.autograd.engine.ready_queue import ReadyQueue
    from gradscope.runtime.core.graph.node import Node


DEPTH = 1 << 65
"""Above every sequence number, so that a deeper graph task has priority."""


_next_number = count().__next__


class GradientCapture:
    """A requested gradient: input `input_nr` of a node, stored as result `output_idx`."""

    __slots__ = ("hooks", "input_nr", "output_idx")

    def __init__(self, input_nr: int, output_idx: int) -> None:
        self.input_nr = input_nr
        self.output_idx = output_idx
        self.hooks: list[Callable[..., Any]] = []


class ExecInfo:
    """Whether a node runs if only some gradients are requested, and what is captured there."""

    __slots__ = ("captures", "needed")

    def __init__(self) -> None:
        self.needed = False
        self.captures: list[GradientCapture] | None = None

    def should_execute(self) -> bool:
        return self.needed or self.captures is not None


def on_arrays(*, create_graph: bool) -> bool:
    """Whether a backward runs on arrays: without create_graph, tangents and modes."""
    return not (
        create_graph
        or local.state.dispatch_modes
        or (ThreadState.with_tangents is not None and local.state.fw_grad_enabled)
    )


class GraphTask:
    """The state of one call of the engine."""

    __slots__ = (
        "__weakref__",
        "accumulate_grad",
        "base_key",
        "captured_vars",
        "completed",
        "cpu_ready_queue",
        "create_graph",
        "dependencies",
        "error",
        "exec_info",
        "final_callbacks",
        "graph_roots",
        "inputs",
        "keep_graph",
        "last_told",
        "lock",
        "modes",
        "not_ready",
        "number",
        "outstanding_tasks",
        "owner_may_leave",
        "owner_thread",
        "parent",
        "parent_node",
        "raw",
        "record_nr",
        "reentrant_depth",
        "state",
        "taken",
    )

    def __init__(
        self,
        *,
        keep_graph: bool,
        create_graph: bool,
        accumulate_grad: bool,
        reentrant_depth: int,
        cpu_ready_queue: ReadyQueue,
    ) -> None:
        self.number = _next_number()
        self.keep_graph = keep_graph
        self.create_graph = create_graph
        self.accumulate_grad = accumulate_grad
        self.raw = on_arrays(create_graph=create_graph)
        self.reentrant_depth = reentrant_depth
        self.base_key = -reentrant_depth * DEPTH
        self.cpu_ready_queue = cpu_ready_queue
        self.outstanding_tasks = 0
        self.dependencies: dict[Node, int] = {}
        self.not_ready: dict[Node, list[Any]] = {}
        self.exec_info: dict[Node, ExecInfo] | None = None
        self.captured_vars: list[Any] = []
        self.graph_roots: tuple[Node, ...] = ()
        self.inputs: tuple[Any, ...] = ()
        self.final_callbacks: list[Callable[[], None]] = []
        self.error: BaseException | None = None
        self.completed = False
        self.owner_may_leave = False
        self.modes: tuple[Any, ...] = ()  # carried to other threads
        self.owner_thread = threading.get_ident()
        self.parent: GraphTask | None = None
        self.parent_node: Node | None = None
        self.lock = threading.RLock()
        self.record_nr = 0
        # For a watcher: when the last node was taken, the length of the queue then, and the node;
        # and the number of the last node whose run was reported.
        self.taken: Any = (0, 0, None)
        self.last_told = 0
        self.state: Any = None

    def forget(self) -> None:
        """Release the graph, possibly before the last thread that ran a part of it."""
        self.not_ready.clear()
        self.dependencies.clear()
        self.exec_info = None
        self.graph_roots = self.inputs = ()
