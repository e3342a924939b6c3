"""What can run now, foremost first."""

from __future__ import annotations

from heapq import heappop, heappush
from threading import Condition
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gradscope.runtime.autograd.graph_task import GraphTask
    from gradscope.runtime.autograd.node import Node

NodeTask = tuple[int, Any, Any, Any]
"""(key, node, input buffer, graph task): a node whose gradients are all there.

# Note [Ties in the queue]
Several AccumulateGrad nodes have the same priority, and PyTorch runs them in the order in which its
binary heap happens to give them out. Python's heap makes the same moves as libstdc++'s as long as
equal keys compare as equal, which is why nodes say that none is less than another.
"""


class ReadyQueue:
    """A priority queue: deeper reentrant depth first, then the newest node."""

    __slots__ = ("changed", "device", "heap", "owner")

    def __init__(self, device: int = 0) -> None:
        self.heap: list[NodeTask] = []
        self.changed = Condition()
        self.device = device
        self.owner: int | None = None

    def push(self, task: GraphTask, node: Node, buffer: list[Any]) -> int:
        """Add a node and count it as outstanding work. Returns the queue's new length."""
        task.outstanding_tasks += 1
        heappush(self.heap, (task.base_key - node.sequence_nr, node, buffer, task))
        return len(self.heap)

    def pop(self) -> NodeTask:
        return heappop(self.heap)

    def __len__(self) -> int:
        return len(self.heap)
