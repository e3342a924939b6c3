"""Records the release of nodes with weak references to their records.

A weak reference to a released record is put into a list by C code: a frame of ours, in the middle
of any line of the program, could receive a signal of the program. So no time is taken then; a node
was released before the time that is put into the list next.
"""

from __future__ import annotations

import weakref
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gradscope.watch.listener import PythonNodeRecord

if TYPE_CHECKING:
    from collections.abc import Callable

Ints = NDArray[np.int64]


class _Record(weakref.ref[PythonNodeRecord]):
    """A record, and what is known of its node after its release."""

    __slots__ = ("about", "is_met")

    def __init__(self, record: PythonNodeRecord, _gone: Callable[[Any], object]) -> None:
        self.about = record.number, record.site, record.context, record.t
        self.is_met = False  # whether a traversal has found the node


class PublicNodeEnds:
    """The released nodes of one recording, and those that exist."""

    lost = 0
    """Number of released nodes whose release was not read in time."""

    def __init__(self) -> None:
        self._events: list[_Record | int] = []  # released records, and times in between
        self._alive: dict[int, _Record] = {}

    def made(self, record: PythonNodeRecord) -> PythonNodeRecord:
        """A node with this record is being created."""
        self._events.append(record.t)
        self._alive[record.number] = _Record(record, self._events.append)
        return record

    def met(self, number: int) -> None:
        """A traversal has found this node."""
        known = self._alive.get(number)
        if known is not None:
            known.is_met = True

    def now(self) -> None:
        """Record the current time, for nodes that were released before it."""
        self._events.append(perf_counter_ns())

    def read(self) -> Ints:
        """Nodes released since the last time: number, line, context, times, whether it was met."""
        self.now()
        events = self._events[:]
        while not isinstance(events[-1], int):  # released since then, by another thread
            events.pop()
        del self._events[: len(events)]
        rows, since = [], 0
        for place, event in enumerate(events):
            if isinstance(event, int):
                for gone in events[since:place]:
                    if isinstance(gone, _Record):
                        self._alive.pop(gone.about[0], None)
                        rows.append((*gone.about, event, gone.is_met))
                since = place + 1
        return np.array(rows, np.int64).reshape(-1, 6)

    def unmet(self) -> Ints:
        """Existing nodes that no traversal has found: number, line, context, creation time."""
        rows = [each.about for each in list(self._alive.values()) if not each.is_met and each()]
        return np.array(rows, np.int64).reshape(-1, 4)
