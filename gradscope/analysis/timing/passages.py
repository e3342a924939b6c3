"""The runs of nodes as places in the order of events, and their states at any moment."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from gradscope.analysis.lookups import Ids, paired
from gradscope.trace.schema import NONE, Decrement, NodeBegin, NodeEnd, Push
from gradscope.trace.schema.declare import Event
from gradscope.trace.table import Table
from gradscope.trace.trace import Trace


class PassageState(IntEnum):
    """The state of a node in a backward."""

    NOT_RUN = 0  # no backward reaches it
    WAITING = 1  # for gradients
    READY = 2  # in a queue
    RUNNING = 3
    DONE = 4
    FAILED = 5


@dataclass(frozen=True, slots=True)
class NodePassages:
    """Every run of a node in a graph task, sorted by its push or start; columns.

    Places are those of `Trace.order()`; NONE for what did not happen or was not recorded.
    """

    node: Ids
    task: Ids
    queue: Ids
    pushed: Ids
    begun: Ids
    ended: Ids
    failed: np.ndarray
    after: Ids  # the node that sent the last gradient it waited for; NONE for a root

    def states(self, nodes: Ids, place: int, task: int | None = None) -> Ids:
        """The state of each of these nodes after the event at this place.

        In one graph task, or in the last one that had reached the node.
        """
        found = np.full(len(nodes), PassageState.NOT_RUN, np.int64)
        mine = np.flatnonzero(np.ones(len(self.task), bool) if task is None else self.task == task)
        order = np.argsort(nodes, kind="stable")
        at = np.searchsorted(nodes[order], self.node[mine])
        at = np.minimum(at, max(len(nodes) - 1, 0))
        known = nodes[order][at] == self.node[mine] if len(nodes) else np.zeros(len(mine), bool)
        rows, mine = order[at[known]], mine[known]
        found[rows] = PassageState.WAITING
        come = self._first()[mine] <= place
        found[rows[come]] = self._state(mine[come], place)  # the last one counts
        return found

    def _first(self) -> Ids:
        return np.where(self.pushed != NONE, self.pushed, self.begun)

    def _state(self, at: Ids, place: int) -> Ids:
        begun = (self.begun[at] != NONE) & (self.begun[at] <= place)
        ended = (self.ended[at] != NONE) & (self.ended[at] <= place)
        over = np.where(self.failed[at], PassageState.FAILED, PassageState.DONE)
        return np.where(ended, over, np.where(begun, PassageState.RUNNING, PassageState.READY))


def passages(trace: Trace) -> NodePassages:
    pushes, begins, ends = (trace.table(kind) for kind in (Push, NodeBegin, NodeEnd))
    node = np.concatenate([pushes["node"], begins["node"]])
    task = np.concatenate([pushes["task"], begins["task"]])
    first = paired((task, node), (task, node))
    keep = np.flatnonzero(first == np.arange(len(first)))
    node, task = node[keep], task[keep]
    pushed, begun = _place(trace, pushes, task, node), _place(trace, begins, task, node)
    ended = _place(trace, ends, task, node)
    order = np.argsort(np.where(pushed != NONE, pushed, begun), kind="stable")
    queue = _column(pushes, "queue", task, node)
    failed = _column(ends, "failed", task, node) == 1
    after = _senders(trace, task, node)
    columns = (node, task, queue, pushed, begun, ended, failed, after)
    return NodePassages(*(column[order] for column in columns))


def _place(trace: Trace, table: Table[Event], task: Ids, node: Ids) -> Ids:
    """The place of the event of each node in the order of events; the first of several."""
    seq = _column(table, "seq", task, node)
    return np.where(seq == NONE, NONE, np.searchsorted(trace.order().seq, seq))


def _column(table: Table[Event], column: str, task: Ids, node: Ids) -> Ids:
    if not len(table):
        return np.full(len(node), NONE, np.int64)
    found = paired((table["task"], table["node"]), (task, node))
    return np.where(found == NONE, NONE, table[column][found])


def _senders(trace: Trace, task: Ids, node: Ids) -> Ids:
    """The source of the last gradient that arrived at each node."""
    table = trace.table(Decrement)
    if not len(table):
        return np.full(len(node), NONE, np.int64)
    back = np.argsort(table["seq"], kind="stable")[::-1]
    found = paired((table["task"][back], table["node"][back]), (task, node))
    return np.where(found == NONE, NONE, table["source"][back][found])
