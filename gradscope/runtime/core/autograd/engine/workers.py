"""The engine's threads: one per device, and a pool for deeply nested backwards.

# Note [Which thread runs a node]
A node runs where its gradients are: on the CPU by the thread that called backward, on a device by
the device's worker, which lives as long as the process. Each has a queue and sleeps while it is
empty. The thread that runs the last node of a graph task completes it. If it is not the owner, an
empty task wakes the owner. A backward called inside a node runs on that node's thread and queue, so
that nodes of the outer one may run inside it. Beyond MAX_DEPTH nested calls a thread of the pool
serves the queue, while the calling thread waits.
"""

from __future__ import annotations

import atexit
import os
import threading
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from gradscope.runtime.core import probe
from gradscope.runtime.core.autograd.engine import accumulate_grad
from gradscope.runtime.core.autograd.engine.ready_queue import ReadyQueue
from gradscope.runtime.core.devices import streams
from gradscope.runtime.core.graph.node import device_of
from gradscope.runtime.core.state.thread import ThreadState, local
from gradscope.runtime.core.state.weak_sets import Alive
from gradscope.runtime.core.tensors.views import views

if TYPE_CHECKING:
    from gradscope.runtime.core.autograd.engine.engine import Engine
    from gradscope.runtime.core.autograd.engine.graph_task import GraphTask
    from gradscope.runtime.core.graph.node import Node

PATIENCE = 10.0
"""Seconds that an ending process waits for its workers."""

FORKED = (
    "Unable to handle autograd's threading in combination with fork-based multiprocessing. "
    "See https://github.com/pytorch/pytorch/wiki/Autograd-and-Fork\n"
    "This process was forked while a backward was running on other threads, which the child does "
    "not have; a backward that the child begins itself has threads of its own."
)


class Worker:
    """A device's thread and its queue."""

    def __init__(self, engine: Engine, number: int) -> None:
        self.queue: Any = None
        self._ready = threading.Event()
        self._engine = engine
        self.thread = threading.Thread(target=self._run, name=f"sim:{number}", daemon=True)
        self.thread.start()
        self._ready.wait()

    def _run(self) -> None:
        state = local.state
        self.queue = state.queue = ReadyQueue(state)
        self._ready.set()
        serve(self._engine, state.queue, state)


class Pool:
    """Threads that run backwards nested too deeply for the calling thread."""

    def __init__(self) -> None:
        self._idle: list[SimpleQueue[Any]] = []

    def run(self, engine: Engine, task: GraphTask) -> None:
        """Let another thread serve the task's queue until the task is done."""
        done = threading.Event()
        work = engine, task, done
        try:
            self._idle.pop().put(work)
        except IndexError:
            inbox: SimpleQueue[Any] = SimpleQueue()
            inbox.put(work)
            threading.Thread(
                target=self._work, args=(inbox,), name="gradscope reentrant", daemon=True
            ).start()
        here = probe.here
        if here is not None:
            here.waits(task.cpu_ready_queue)
        done.wait()
        if here is not None:
            here.wakes(task.cpu_ready_queue)

    def _work(self, inbox: SimpleQueue[Any]) -> None:
        state, process = local.state, os.getpid()
        state.borrowing = True
        while os.getpid() == process:  # a forked child is not part of the pool
            engine, task, done = inbox.get()
            task.owner_thread = threading.get_ident()
            state.queue = task.cpu_ready_queue
            try:
                serve(engine, state.queue, state, task)
            finally:
                engine = task = state.queue = None
                self._idle.append(inbox)
                done.set()
                done = None


_workers: dict[int, Worker] = {}
_starting = threading.Lock()
pool = Pool()
under_way: Alive[GraphTask] = Alive()
"""The graph tasks that several threads may be running."""


def queue_for(task: GraphTask, node: Node) -> ReadyQueue:
    """The queue of a node of this graph task."""
    where = device_of(node)
    if where is None or where.type == "meta" or not task.state.multithreading:
        return task.cpu_ready_queue
    worker = _workers.get(where.index or 0)
    if worker is None:
        with _starting:
            worker = _workers.get(where.index or 0)
            if worker is None:
                from gradscope.runtime.core.autograd.engine.engine import engine

                worker = _workers[where.index or 0] = Worker(engine, where.index or 0)
    queue: ReadyQueue = worker.queue
    return queue


def serve(
    engine: Engine, queue: ReadyQueue, state: ThreadState, task: GraphTask | None = None
) -> None:
    """Run the nodes in a queue: until `task` is done, or until told to end.

    In a child forked on a worker's thread, the loop ends, too.
    """
    before = (state.task, state.node, state.grad_enabled)
    modes = state.modes()
    state.reentrant_depth += 1
    state.task = None  # so that the first node gets the modes of its own backward
    try:
        process = os.getpid()
        while not task.owner_may_leave if task is not None else os.getpid() == process:
            if not _take_and_run(engine, queue, state, worker=task is None):
                return
    except BaseException as error:  # interrupted while waiting: others may still run it
        if task is not None:
            task.error = error
            queue.discard(task)
        raise
    finally:
        state.reentrant_depth -= 1
        state.put_back(modes)
        state.task, state.node, state.grad_enabled = before
        state.context = 0


def _take_and_run(engine: Engine, queue: ReadyQueue, state: ThreadState, *, worker: bool) -> bool:
    """Run one node with the modes of the caller of backward; complete the task if it was the last.

    The waiting thread continues once the task is done, so by then this thread must hold no
    references to its graph. Returns False if there is nothing more to do.
    """
    from gradscope.runtime.core.autograd.engine.evaluate_shared import evaluate_shared

    (_, node, inputs, task), trouble = queue.take(worker=worker)
    if task is None:
        return False
    if not node:
        task.owner_may_leave, task.error = True, task.error or trouble
        return True
    if state.task is not task:
        if task.modes:  # else it began before devices were used
            state.carry(task.modes)
        state.task, state.context = task, 0
    state.grad_enabled, state.node = task.create_graph, node
    try:
        if trouble is not None:
            raise trouble
        if task.error is None:
            evaluate_shared(task, node, inputs)
    except BaseException as error:  # re-raised in the caller of backward
        engine.fail(task, node, error)
    node = inputs = trouble = None
    state.node = task.parent_node  # as callbacks at the end see it
    with task.lock:
        task.outstanding_tasks -= 1
        done = not task.outstanding_tasks
    if done:
        engine.complete(task)
        if task.owner_thread == threading.get_ident():
            task.owner_may_leave = True
        else:
            state.node = None
            task.cpu_ready_queue.put_empty(task)
    return True


@atexit.register
def _shut_down() -> None:
    """Stop the workers before the interpreter ends."""
    for worker in _workers.values():
        worker.queue.put_shutdown()
    for worker in _workers.values():
        worker.thread.join(PATIENCE)
    _workers.clear()


def _after_fork() -> None:
    """Reset in a forked child: threads are missing, and may have held locks."""
    global _starting, pool
    _workers.clear()
    _starting, pool = threading.Lock(), Pool()
    for stream in streams.all():
        stream.renew()
    for task in list(under_way):
        task.lock = threading.RLock()
        task.cpu_ready_queue.renew()
        task.cpu_ready_queue.discard(task)
        task.error = RuntimeError(FORKED)
        task.owner_may_leave = True
    queue = local.state.queue
    if queue is not None:
        queue.renew()
    for module in (accumulate_grad, views):
        module.renew_lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
