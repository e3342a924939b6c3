"""Detects when the memory of a storage is freed, with weak references to its array; and nodes.

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
"""In place of the size of the smallest storage that is followed: none is."""

FOLLOWS_NODES = ("values", "full")
"""Levels at which the ends of nodes are seen, which costs each node tenths of a microsecond."""

SMALLEST = {"graph": NEVER, "engine": LARGE, "values": 0, "full": 0}
"""From how many bytes on storages are followed, by level."""


def follows_from(level: str) -> dict[str, int]:
    """The same for a trace's `meta`, which says nothing where no storage is followed."""
    size = SMALLEST[level]
    return {} if size == NEVER else {"follows_from": size}


class _Followed(ref):  # type: ignore[type-arg]
    __slots__ = ("number",)
    number: int


class Frees:
    """Follows arrays, and keeps the numbers of storages whose array is gone, with the time."""

    def __init__(self, start: int, smallest: int) -> None:
        self.smallest = smallest
        self._start = start
        self._alive: dict[int, _Followed] = {}
        self._freed: list[tuple[int, int]] = []

    def follow(self, array: Any, number: int) -> None:
        """Notice when the memory of this array goes; memory that NumPy has borrowed has no end."""
        while isinstance(array.base, np.ndarray):
            array = array.base
        if array.base is None:
            followed = _Followed(array, self._gone)
            followed.number = number
            self._alive[number] = followed

    def _gone(self, followed: _Followed) -> None:
        """Any thread calls this, whatever it is at: a list can be added to in the middle of it."""
        self._freed.append((followed.number, perf_counter_ns() - self._start))
        self._alive.pop(followed.number, None)

    def take(self) -> list[tuple[int, int]]:
        """(storage, time) of all that went since the last time."""
        return take_all(self._freed)

    def stop(self) -> None:
        """Follow nothing any longer."""
        self._alive.clear()


class RuntimeNodeEnds:
    """Keeps the numbers of nodes that are gone, with the time: nodes say so as they go."""

    def __init__(self, base: int, start: int) -> None:
        self._gone: list[tuple[int, int]] = []
        gone = self._gone

        def goes(node: Any) -> None:
            number = getattr(node, "record_nr", base)  # a call that failed has not numbered it
            if number > base and node.sequence_nr != LAST:
                gone.append((number, perf_counter_ns() - start))

        self._goes = goes

    def start(self) -> None:
        Node.__del__ = self._goes  # type: ignore[attr-defined]

    def stop(self) -> None:
        if Node.__dict__.get("__del__") is self._goes:
            del Node.__del__  # type: ignore[attr-defined]

    def take(self) -> list[tuple[int, int]]:
        """(node, time) of all that went since the last time."""
        return take_all(self._gone)
