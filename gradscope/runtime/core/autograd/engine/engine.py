"""The engine: counts dependencies, then runs nodes as they become ready."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from heapq import heappop
from types import FrameType
from typing import Any, NoReturn

from gradscope.runtime.core import probe
from gradscope.runtime.core.autograd.engine import workers
from gradscope.runtime.core.autograd.engine.evaluate import (
    evaluate_function,
    evaluate_in_anomaly_mode,
)
from gradscope.runtime.core.autograd.engine.evaluators import Evaluate, unwatched, watched
from gradscope.runtime.core.autograd.engine.graph_task import ExecInfo, GradientCapture, GraphTask
from gradscope.runtime.core.autograd.engine.ready_queue import ReadyQueue
from gradscope.runtime.core.autograd.modes.anomaly_mode import tell
from gradscope.runtime.core.errors.engine import starting as errors
from gradscope.runtime.core.errors.memory import of_a_backward
from gradscope.runtime.core.graph.new_node import prepare
from gradscope.runtime.core.graph.node import Node, device_of
from gradscope.runtime.core.state.thread import ThreadState, local

ORDINARY = evaluate_function
MAX_DEPTH = 60
"""Largest depth of nested backwards on one thread. Deeper ones run on a thread of the pool."""


class GraphRoot(Node):
    """The root of a backward with several roots: sends each its gradient."""

    __slots__ = ("outputs",)
    outputs: Sequence[Any]

    def run_arrays(self, grads: Sequence[Any]) -> Sequence[Any]:
        return self.outputs

    run_tensors = run_arrays


class Engine:
    """Runs backwards. There is one per process: `engine` below."""

    def execute(
        self,
        roots: Sequence[tuple[Node, int]],
        grads: Sequence[Any],
        *,
        keep_graph: bool,
        create_graph: bool,
        accumulate_grad: bool,
        outputs: Sequence[tuple[Node, int]] = (),
    ) -> list[Any]:
        """Run a backward from `roots`. Returns the gradients at the edges in `outputs`."""
        state = local.state
        if state.queue is None:
            state.queue = ReadyQueue(state)
        task = GraphTask(
            keep_graph=keep_graph,
            create_graph=create_graph,
            accumulate_grad=accumulate_grad,
            reentrant_depth=0 if state.task is None else state.task.reentrant_depth + 1,
            cpu_ready_queue=state.queue,
        )
        task.parent, task.parent_node, task.state = state.task, state.node, state
        root, buffer = _root(roots, grads, state)
        task.graph_roots = tuple(node for node, _ in roots)
        lowest = self.compute_min_topological_nr(outputs)
        here = probe.here
        if here is not None:
            task.inputs = tuple(outputs)
        self.compute_dependencies(root, task, lowest)
        if outputs:
            self.init_to_execute(root, task, outputs, lowest)
        depth = state.reentrant_depth
        deep = depth >= MAX_DEPTH or (depth > 0 and _stack_is_long())
        if ThreadState.devices:
            task.modes = state.carried()
        shared = deep or state.borrowing or (ThreadState.devices and _meets_devices(task, root))
        try:
            length = -1 if shared else state.queue.push(task, root, buffer)
            if here is not None:
                here.backward_begins(task, root, length, state, pool=deep)
                if here.look is not None:
                    for (node, nr), grad in zip(roots, grads, strict=True):
                        here.look.seed(task, node, nr, grad)
            if shared:
                self.execute_shared(task, root, buffer, state, deep=deep)
            else:
                self.thread_main(task, state)
        except BaseException as error:  # clear the queue for other backwards
            state.queue.discard(task)
            task.error = task.error or error
        if probe.here is not None:
            probe.here.backward_ends(task)
        if task.error is not None:
            _raise_from(task)
        return task.captured_vars

    def compute_min_topological_nr(self, outputs: Sequence[tuple[Node, int]]) -> int:
        """The lowest topological number of requested nodes: no node below leads to one."""
        return min(node.topological_nr for node, _ in outputs) if outputs else 0

    def compute_dependencies(self, root: Node, task: GraphTask, lowest: int) -> None:
        """Count how many gradients each reachable node will receive."""
        counts = task.dependencies
        stack = [root]
        push, pop = stack.append, stack.pop
        while stack:
            node = pop()
            if lowest and node.topological_nr < lowest:
                continue
            for following, _ in node.next_functions:
                if following is None:
                    continue
                if following in counts:
                    counts[following] += 1
                else:
                    counts[following] = 1
                    push(following)

    def init_to_execute(
        self, root: Node, task: GraphTask, outputs: Sequence[tuple[Node, int]], lowest: int
    ) -> None:
        """Mark the nodes that lead to requested ones, by a depth-first search without recursion."""
        info: dict[Node, ExecInfo] = {}
        task.exec_info = info
        task.captured_vars = [None] * len(outputs)
        for index, (node, nr) in enumerate(outputs):
            entry = info.setdefault(node, ExecInfo())
            if task.accumulate_grad:
                entry.needed = True
            else:
                if entry.captures is None:
                    entry.captures = []
                entry.captures.append(GradientCapture(nr, index))
        seen = {root}
        stack = [(root, iter(root.next_functions))]
        while stack:
            node, following = stack[-1]
            for child, _ in following:
                if child is None or child in seen:
                    continue
                if child.topological_nr >= lowest:
                    seen.add(child)
                    stack.append((child, iter(child.next_functions)))
                    break
            else:
                stack.pop()
                entry = info.setdefault(node, ExecInfo())
                entry.needed = entry.needed or any(
                    child is not None and child in info and info[child].should_execute()
                    for child, _ in node.next_functions
                )

    def execute_shared(
        self, task: GraphTask, root: Node, buffer: list[Any], state: ThreadState, *, deep: bool
    ) -> None:
        """Run a task on several threads. See Note [Which thread runs a node]."""
        task.modes = state.carried()
        workers.under_way.add(task)
        try:
            workers.queue_for(task, root).put(task, root, buffer)
            if deep:
                workers.pool.run(self, task)
            else:
                workers.serve(self, state.queue, state, task)
        finally:
            workers.under_way.discard(task)

    def thread_main(self, task: GraphTask, state: ThreadState) -> None:
        """Run nodes from this thread's queue until `task` is done."""
        heap = state.queue.heap
        before = (state.task, state.node, state.grad_enabled)
        hooks, state.saved_hooks = state.saved_hooks, [*state.saved_hooks]
        state.reentrant_depth += 1
        run: Evaluate = evaluate_function
        owner, ordinary, short = None, False, False
        try:
            while task.outstanding_tasks:
                _, node, inputs, found = heappop(heap)
                if found is not owner:
                    owner = found
                    state.task, state.grad_enabled, state.context = owner, owner.create_graph, 0
                    run = evaluate_in_anomaly_mode if state.anomaly else evaluate_function
                    ordinary = run is ORDINARY
                    short = ordinary and owner.raw and owner.exec_info is None
                if short and probe.here is None:
                    run = unwatched[node.__class__]
                elif ordinary:
                    run = watched[node.__class__]
                state.node = node
                try:
                    if owner.error is None:
                        run(owner, node, inputs, heap)
                    elif probe.here is not None:  # nodes of a failed task are discarded
                        probe.here.popped(owner, node, probe.here.clock(), len(heap))
                except BaseException as error:  # re-raised in the caller of backward
                    self.fail(owner, node, error)
                finally:
                    owner.outstanding_tasks -= 1
            # Callbacks run with the modes of this task, and with its calling node.
            state.task, state.node, state.grad_enabled = task, before[1], task.create_graph
            state.context = 0
            self.complete(task)
        finally:
            state.reentrant_depth -= 1
            state.task, state.node, state.grad_enabled = before
            state.context = 0
            if state.saved_hooks != hooks:  # a node's hooks last for its backward
                state.saved_hooks = hooks
                state.refresh()
            state.saved_hooks = hooks

    def fail(self, task: GraphTask, node: Node, error: BaseException) -> None:
        error = of_a_backward(error)
        if task.error is None:
            task.error = error
        if probe.here is not None:
            probe.here.node_failed(task, node, error)
        if local.state.anomaly:
            tell(node)

    def complete(self, task: GraphTask) -> None:
        """Run the callbacks queued for the end. Each may queue more."""
        if task.error is None:
            try:
                if task.not_ready:
                    raise errors.left_over(len(task.not_ready))
                done = 0
                while done < len(task.final_callbacks):
                    function = task.final_callbacks[done]
                    if probe.here is not None:
                        probe.here.called_back(task, function)
                    function()
                    done += 1
            except BaseException as error:
                task.error = error
        task.completed = True
        task.forget()

    def queue_callback(self, function: Any) -> None:
        """Run `function` at the end of the innermost running backward."""
        task = local.state.task
        if task is None:
            raise errors.callback_outside()
        task.final_callbacks.append(function)

    def is_checkpoint_valid(self) -> bool:
        """Whether a reentrant checkpoint may run: not if only some gradients are requested."""
        return local.state.checkpoint_valid


def _stack_is_long() -> bool:
    """Whether Python's stack may be too short for more nested backwards on this thread."""
    frame: FrameType | None = sys._getframe(1)
    room = sys.getrecursionlimit() * 3 // 4
    while frame is not None and room:
        frame, room = frame.f_back, room - 1
    return not room


def _meets_devices(task: GraphTask, root: Node) -> bool:
    """Whether other threads may run nodes of this task, or add to the queue while it runs."""
    if task.parent is not None:
        return True
    places = map(device_of, (root, *task.dependencies))
    return any(where is not None and where.type != "meta" for where in places)


def _raise_from(task: GraphTask) -> NoReturn:
    """Raise the error of a backward, so that the graph is released with the error.

    The error's traceback references the task, so the task must not reference the error.
    """
    error = task.error
    assert error is not None
    if task.completed:
        task.error = None
    try:
        raise error
    finally:
        del error


def _root(
    roots: Sequence[tuple[Node, int]], grads: Sequence[Any], state: ThreadState
) -> tuple[Node, list[Any]]:
    """The root and its input: the single root itself, or a GraphRoot of several."""
    if len(roots) == 1:
        node, nr = roots[0]
        buffer: list[Any] = [None] * len(node.input_metadata)
        buffer[nr] = grads[0]
        return node, buffer
    root = GraphRoot()
    prepare(root, roots, state)
    root.outputs = tuple(grads)
    return root, []


engine = Engine()
