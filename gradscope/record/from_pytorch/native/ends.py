"""Rows of releases of nodes, and of nodes that no backward reached."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from gradscope.record.from_pytorch.memory.storage_rows import put
from gradscope.record.notes.local_names import node_of
from gradscope.record.process.instances import instances
from gradscope.trace import schema
from gradscope.trace.schema import NONE

if TYPE_CHECKING:
    from collections.abc import Callable

    from gradscope.record.from_pytorch.native.storages import Storages
    from gradscope.record.notes.log import Ints
    from gradscope.record.session import Session
    from gradscope.watch.watcher import Watcher

MOST = 1 << 14
"""Number of tensors that are checked at the end."""

NAMES = (
    "stack", "module", "thread", "task", "step", "many", "t", "until", "died",
)  # fmt: skip


class ReleasedNodes(Protocol):
    """What is known of the release of nodes of one recording."""

    @property
    def lost(self) -> int:
        """Number of released nodes whose release was not read in time."""
        ...

    def read(self) -> Ints:
        """Nodes released since the last time: number, line, context, times, whether it was met."""
        ...

    def unmet(self) -> Ints:
        """Existing nodes that no traversal has found: number, line, context, creation time."""
        ...


class PyTorchNodeEnds:
    """Reads released records whenever notes are flushed."""

    def __init__(self, session: Session, released: ReleasedNodes) -> None:
        self._session = session
        self._released = released
        self._left: list[tuple[int, ...]] = []  # rows of nodes that existed at the end

    @property
    def lost(self) -> int:
        """Number of released nodes whose release was not read in time."""
        return self._released.lost

    def read(self) -> Ints:
        """The nodes released so far: written after the rows of nodes that exist now."""
        return self._released.read()

    def write(self, rows: Ints) -> None:
        """Amend the nodes that traversals have found, and write rows for the others."""
        session, start = self._session, self._session.start
        number, *_, died, met = rows.T
        met = met != 0
        if met.any():
            amended = {"id": number[met], "died": died[met] - start}
            session.writer.block(schema.Node, amended, amend=True)
        told = self._of(rows[~met][:, :-1])
        told += self._left
        self._left = []
        put(session.writer.block, schema.Unreached, NAMES, told)

    def look(self, watcher: Watcher) -> None:
        """At the end of the program: find existing graphs, and the remaining nodes."""
        if len(self._released.unmet()):
            record_of = watcher.graph.record_of
            for tensor in _newest_with_history(sys.modules["torch"].Tensor):
                record = record_of(node_of(tensor))
                if record is not None and record.topological < 0:
                    watcher.reach([tensor])
        alive = self._released.unmet()
        if len(alive):
            never = np.full((len(alive), 1), NONE)
            self._left += self._of(np.concatenate([alive, never], axis=1))

    def _of(self, nodes: Ints) -> list[tuple[int, ...]]:
        """Write nodes: number, line, context, creation time, release time (NONE: not released).

        Nodes created one after another on one line in one context are one row: their numbers are
        consecutive.
        """
        if not len(nodes):
            return []
        contexts, start = self._session.contexts, self._session.start
        thread, module, task, _, _ = np.array([contexts.rows[c] for c in nodes[:, 2].tolist()]).T
        nodes = nodes[order := np.lexsort((nodes[:, 0], thread))]
        thread, module, task = thread[order], module[order], task[order]
        number, site, context, born, died = nodes.T
        step = contexts.steps.at(born - start)
        same = np.stack([site, context, step, died == NONE, number - 2 * np.arange(len(number))])
        first = np.flatnonzero(np.append(True, (same[:, 1:] != same[:, :-1]).any(0)))
        many = np.diff(np.append(first, len(nodes)))
        last = first + many - 1
        went = np.maximum.reduceat(died, first)
        columns = (
            site[first], module[first], thread[first], task[first], step[first], many,
            born[first] - start, born[last] - start, np.where(went == NONE, NONE, went - start),
        )  # fmt: skip
        return list(zip(*(column.tolist() for column in columns), strict=True))


class Releases(NamedTuple):
    """The releases of nodes and of large storages that are followed."""

    nodes: PyTorchNodeEnds
    storages: Storages
    met: Callable[[int], object]
    """Called with the number of each node that a traversal has found from Python."""


def _newest_with_history(tensor: type) -> list[Any]:
    """Python tensors with a graph, those most recently tracked by the garbage collector first."""
    found = [each for each in instances(tensor) if node_of(each) is not None]
    return found[: -MOST - 1 : -1]
