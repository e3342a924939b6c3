"""Keeps recent records, so that errors can name their causes while the program runs.

Flushed records leave memory, but an error needs the past: which call created this tensor, which
backward released this node. The last records are therefore stored as numbers, a few bytes each;
older ones are only in the finished trace.
"""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gradscope.trace.schema import NONE, SavedReleased

if TYPE_CHECKING:
    from gradscope.record.notes.log import Ints

MOST = 1 << 18
"""Number of records of one kind that are stored."""

MANY = 64
"""Number of pieces after which they are joined."""

WRITES = 16
"""Number of writes that are stored for a set of aliases."""

NO_GRAD = -2
"""Used instead of the sequence number of a call's node: grad mode was off."""


class Maker(NamedTuple):
    """The call that created a tensor or node: operation, line, and whether it recorded a graph."""

    op: int | str  # the number of an operation, or its name
    site: int
    grad_enabled: bool


class WriteAt(NamedTuple):
    """One write to a set of aliases."""

    version: int  # the version after it
    op: str
    site: int


class RecentWrites:
    """The last writes to a set of aliases in one recording."""

    __slots__ = ("base", "last")

    def __init__(self, base: int) -> None:
        self.base = base
        self.last: deque[WriteAt] = deque(maxlen=WRITES)


def remember_write(versions: Any, base: int, write: WriteAt) -> None:
    """Store a write together with the version of the set of aliases, which frees it."""
    told = getattr(versions, "recorded", None)
    if told is None or told.base != base:
        versions.recorded = told = RecentWrites(base)
    told.last.append(write)


def writes_since(versions: Any, base: int, version: int) -> list[WriteAt]:
    """The writes after a version, from first to last, as far as they are stored."""
    told = getattr(versions, "recorded", None)
    if told is None or told.base != base:
        return []
    return [write for write in told.last if write.version > version]


class _Bounded(dict[int, Any]):
    """A mapping that keeps the last entries."""

    def keep(self, key: int, value: Any) -> None:
        if len(self) >= MOST:
            for old in list(islice(self, MOST // 4)):
                del self[old]
        self[key] = value


class RecentColumns:
    """Keeps the last records of a kind as arrays; `waiting` are those not flushed yet."""

    def __init__(self) -> None:
        self.waiting: list[Ints] = []
        self._parts: deque[Ints] = deque()
        self._count = 0

    def keep(self, table: Ints) -> None:
        """Store records that are flushed now."""
        self.waiting = []
        if not table.shape[1]:
            return
        self._parts.append(table[:, -MOST:])
        self._count += self._parts[-1].shape[1]
        while self._count - self._parts[0].shape[1] >= MOST:
            self._count -= self._parts.popleft().shape[1]
        if len(self._parts) > MANY:
            self._parts = deque([np.concatenate(self._parts, axis=1)])

    def last(self, key: int) -> list[int] | None:
        """The newest record that begins with this value."""
        for part in (*self.waiting, *reversed(self._parts)):
            found = np.flatnonzero(part[0] == key)
            if len(found):
                record: list[int] = part[:, found[-1]].tolist()
                return record
        return None

    def __len__(self) -> int:
        return self._count


def called(table: Ints) -> Ints:
    """The columns of ordinary calls: number, operation, site, sequence number."""
    return np.stack((table[0] & ~1, table[4], table[-2], table[5]))


def released(runs: Ints, events: Ints) -> Ints:
    """Released nodes and the graph tasks that released them, from runs and single events."""
    single = events[[4, 3]][:, events[1] == SavedReleased.CODE]
    ran = runs[[3, 2]][:, runs[5] == 1]
    both = np.concatenate((ran, single), axis=1)
    both[0] &= ~1
    return both


class Recent:
    """The last calls, releases and backwards of one recording."""

    def __init__(self) -> None:
        self.calls = RecentColumns()
        self.released = RecentColumns()
        self._full: _Bounded = _Bounded()  # calls written out in full
        self._outputs: _Bounded = _Bounded()  # tensor → the call that created it
        self._tasks: _Bounded = _Bounded()  # graph task → where backward was called

    def full_call(self, number: int, made: Maker) -> None:
        self._full.keep(number, made)

    def output(self, tensor: int, call: int) -> None:
        self._outputs.keep(tensor, call)

    def task(self, number: int, site: int) -> None:
        self._tasks.keep(number, site)

    # -- lookups ------------------------------------------------------------------------------

    def maker(self, number: int) -> Maker | None:
        """The call that created the tensor or node with this number."""
        call = self._outputs.get(number, number)
        if call in self._full:
            made: Maker = self._full[call]
            return made
        found = self.calls.last(call)
        if found is None:
            return None
        _, op, site, sequence = found
        return Maker(op, site, sequence != NO_GRAD)

    def released_by(self, node: int) -> int | None:
        """The graph task that released what this node had saved."""
        found = self.released.last(node)
        return None if found is None else found[1]

    def called_at(self, task: int) -> int:
        """Where this backward was called."""
        return int(self._tasks.get(task, NONE))
