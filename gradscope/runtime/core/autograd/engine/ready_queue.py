"""The queue of nodes that are ready to run, by priority."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from threading import Condition
from typing import TYPE_CHECKING, Any

from gradscope.runtime.core import probe

if TYPE_CHECKING:
    from gradscope.runtime.core.autograd.engine.graph_task import GraphTask
    from gradscope.runtime.core.graph.node import Node
    from gradscope.runtime.core.state.thread import ThreadState

NodeTask = tuple[int, Any, Any, Any]
"""(key, node, input buffer, graph task): a ready node with its gradients.

Without a node it is an empty task, which wakes the thread that waits for the graph task. Without a
graph task either, it tells a worker to end.

# Note [Ties in the queue]
Several AccumulateGrad nodes have the same priority, and PyTorch runs them in the order in which its
binary heap returns them. Python's heap makes the same moves as libstdc++'s as long as equal keys
compare as equal, which is why no node is less than another. The order of two empty tasks does not
matter, as long as Python compares only keys.
"""

EMPTY, SHUTDOWN = -(1 << 299), -(1 << 300)
"""Keys less than those of all nodes."""


class _Nothing:
    """Stands for the node of an empty task. None is less than another."""

    def __lt__(self, other: object) -> bool:
        return False

    def __bool__(self) -> bool:
        return False


NOTHING: Any = _Nothing()


class ReadyQueue:
    """A priority queue: shutdown first, then empty tasks, deeper tasks, the newest node.

    A thread that runs a backward alone uses `heap` directly, without locks. `put` and `take` are
    for queues that several threads use. `state` is that of the owning thread.
    """

    __slots__ = ("changed", "heap", "state")

    def __init__(self, state: ThreadState) -> None:
        self.heap: list[NodeTask] = []
        self.changed = Condition()
        self.state = state

    def push(self, task: GraphTask, node: Node, buffer: list[Any]) -> int:
        """Add a node and count it as outstanding. Returns the new length."""
        task.outstanding_tasks += 1
        heappush(self.heap, (task.base_key - node.sequence_nr, node, buffer, task))
        return len(self.heap)

    def pop(self) -> NodeTask:
        return heappop(self.heap)

    def put(self, task: GraphTask, node: Node, buffer: list[Any]) -> None:
        """Add a node from any thread, and wake one that waits."""
        with task.lock:
            task.outstanding_tasks += 1
        self._put((task.base_key - node.sequence_nr, node, buffer, task))

    def put_empty(self, task: GraphTask) -> None:
        """Wake the thread that waits for `task`."""
        self._put((EMPTY, NOTHING, (), task))

    def put_shutdown(self) -> None:
        """Tell the worker to end."""
        self._put((SHUTDOWN, NOTHING, (), None))

    def _put(self, item: NodeTask) -> None:
        here = probe.here
        with self.changed:
            heappush(self.heap, item)
            if here is not None and item[3] is not None:
                here.queued(item[3], item[1] or None, self, len(self.heap))
            self.changed.notify()

    def take(self, *, worker: bool) -> tuple[NodeTask, BaseException | None]:
        """Wait for and return the first item, and an exception raised by a watcher about it.

        A caller of backward can be interrupted while it waits. A worker ignores interruptions.
        """
        trouble: BaseException | None = None
        with self.changed:
            while not self.heap:
                try:
                    self._sleep(probe.here if trouble is None else None)
                except BaseException as error:
                    if not worker:
                        raise
                    trouble = error
            item = heappop(self.heap)
            here = probe.here
            if here is not None and item[3] is not None:
                try:
                    here.unqueued(item[3], item[1] or None, self, len(self.heap))
                except BaseException as error:  # the item was removed and must be counted
                    trouble = error
            return item, trouble

    def _sleep(self, told: Any) -> None:
        if told is not None:
            told.waits(self)
        try:
            while not self.heap:
                self.changed.wait()
        finally:
            if told is not None and told is probe.here:  # no recording began or ended meanwhile
                told.wakes(self)

    def discard(self, task: GraphTask) -> None:
        """Discard the nodes of a graph task that nothing waits for."""
        with self.changed:
            self.heap[:] = [item for item in self.heap if item[3] is not task]
            heapify(self.heap)

    def renew(self) -> None:
        """Replace the lock in a forked child."""
        self.changed = Condition()

    def __len__(self) -> int:
        return len(self.heap)
