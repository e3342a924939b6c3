"""Detects the release of storages, with weak references to their arrays, and of nodes.

# Note [Large storages]
Following a storage to its end costs almost a microsecond, as much as everything else recorded of a
call. Memory is mostly used by large storages, whose calls take far longer. So a default recording
follows storages from LARGE on, and one that measures values, which is slower anyway, follows all.
"""

from __future__ import annotations

from time import perf_counter_ns
from typing import Any
from weakref import ref

import numpy as np

from gradscope.record.notes.log import take_all
from gradscope.runtime.core.graph.node import LAST, Node

LARGE = 1 << 18
NEVER = 1 << 62
"""Used instead of the smallest size of a followed storage: no storage is followed."""

FOLLOWS_NODES = ("values", "full")
"""Levels at which releases of nodes are recorded, which costs tenths of a microsecond per node."""

SMALLEST = {"graph": NEVER, "engine": LARGE, "values": 0, "full": 0}
"""Smallest size in bytes of a followed storage, by level."""


def follows_from(level: str) -> dict[str, int]:
    """The smallest followed size for a trace's `meta`; absent if no storage is followed."""
    size = SMALLEST[level]
    return {} if size == NEVER else {"follows_from": size}


class _Followed(ref):  # type: ignore[type-arg]
    __slots__ = ("number",)
    number: int


class Frees:
    """Follows arrays, and stores the numbers of freed storages with the time."""

    def __init__(self, start: int, smallest: int) -> None:
        self.smallest = smallest
        self._start = start
        self._alive: dict[int, _Followed] = {}
        self._freed: list[tuple[int, int]] = []

    def follow(self, array: Any, number: int) -> None:
        """Record when the memory of this array is freed; memory not owned by NumPy is skipped."""
        while isinstance(array.base, np.ndarray):
            array = array.base
        if array.base is None:
            followed = _Followed(array, self._gone)
            followed.number = number
            self._alive[number] = followed

    def _gone(self, followed: _Followed) -> None:
        """Called by any thread at any time: appending to a list is safe even then."""
        self._freed.append((followed.number, perf_counter_ns() - self._start))
        self._alive.pop(followed.number, None)

    def take(self) -> list[tuple[int, int]]:
        """(storage, time) of all that were freed since the last time."""
        return take_all(self._freed)

    def stop(self) -> None:
        """Stop following."""
        self._alive.clear()


class RuntimeNodeEnds:
    """Stores the numbers of released nodes with the time, as the nodes report it."""

    def __init__(self, base: int, start: int) -> None:
        self._gone: list[tuple[int, int]] = []
        gone = self._gone

        def goes(node: Any) -> None:
            number = getattr(node, "record_nr", base)  # not numbered, because its call failed
            if number > base and node.sequence_nr != LAST:
                gone.append((number, perf_counter_ns() - start))

        self._goes = goes

    def start(self) -> None:
        Node.__del__ = self._goes  # type: ignore[attr-defined]

    def stop(self) -> None:
        if Node.__dict__.get("__del__") is self._goes:
            del Node.__del__  # type: ignore[attr-defined]

    def take(self) -> list[tuple[int, int]]:
        """(node, time) of all that were released since the last time."""
        return take_all(self._gone)
