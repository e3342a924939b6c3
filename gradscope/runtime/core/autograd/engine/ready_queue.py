"""What can run now, foremost first."""

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
"""(key, node, input buffer, graph task): a node whose gradients are all there.

Without a node it is an empty task, which wakes the thread that sleeps over the graph task; without
a graph task either, it tells a worker to end.

# Note [Ties in the queue]
Several AccumulateGrad nodes have the same priority, and PyTorch runs them in the order in which its
binary heap happens to give them out. Python's heap makes the same moves as libstdc++'s as long as
equal keys compare as equal, which is why nodes say that none is less than another. Of two empty
tasks it does not matter which comes first, as long as Python does not compare further than the key.
"""

EMPTY, SHUTDOWN = -(1 << 299), -(1 << 300)
"""Keys before those of all nodes."""


class _Nothing:
    """Stands for the node of a task without one; none is less than another."""

    def __lt__(self, other: object) -> bool:
        return False

    def __bool__(self) -> bool:
        return False


NOTHING: Any = _Nothing()


class ReadyQueue:
    """A priority queue: shutdown first, empty tasks, deeper reentrant depth, the newest node.

    A thread that alone runs a backward uses `heap` itself, without locks; `put` and `take` are for
    queues that several threads fill. `state` is that of the thread the queue belongs to.
    """

    __slots__ = ("changed", "heap", "state")

    def __init__(self, state: ThreadState) -> None:
        self.heap: list[NodeTask] = []
        self.changed = Condition()
        self.state = state

    def push(self, task: GraphTask, node: Node, buffer: list[Any]) -> int:
        """Add a node and count it as outstanding work. Returns the queue's new length."""
        task.outstanding_tasks += 1
        heappush(self.heap, (task.base_key - node.sequence_nr, node, buffer, task))
        return len(self.heap)

    def pop(self) -> NodeTask:
        return heappop(self.heap)

    def put(self, task: GraphTask, node: Node, buffer: list[Any]) -> None:
        """Add a node from any thread, and wake one that waits for it."""
        with task.lock:
            task.outstanding_tasks += 1
        self._put((task.base_key - node.sequence_nr, node, buffer, task))

    def put_empty(self, task: GraphTask) -> None:
        """Wake the thread that sleeps until `task` is done."""
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
        """The foremost item, and what a watcher raised when told of it; sleeps until there is one.

        Whoever called backward may be interrupted while it sleeps; a worker has nobody to tell.
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
                except BaseException as error:  # the item is out of the queue and must be counted
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
        """Throw away what is left of a graph task that nobody waits for any more."""
        with self.changed:
            self.heap[:] = [item for item in self.heap if item[3] is not task]
            heapify(self.heap)

    def renew(self) -> None:
        """In a forked child: nobody holds the lock."""
        self.changed = Condition()

    def __len__(self) -> int:
        return len(self.heap)
