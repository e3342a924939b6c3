"""Memory that the graph keeps alive for backward, each storage counted once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gradscope.analysis.lookups import Ids
from gradscope.analysis.program.culprits import VIEWS
from gradscope.trace.arrays import distinct
from gradscope.trace.schema import NONE, Node, Op, Saved, Storage, Tensor
from gradscope.trace.trace import Trace

MOST_VIEWS = 4
"""Number of nested views that are resolved."""


@dataclass(frozen=True, slots=True)
class Peak:
    """The most bytes saved at once, and when."""

    bytes: int
    t: int


@dataclass(frozen=True, slots=True)
class SavedRows:
    """Values that nodes saved, in the rows of the trace; equal-length columns."""

    holder: Ids  # a number for each storage
    tensor: Ids
    bytes: Ids  # of the tensor
    storage: Ids  # bytes of the storage; NONE: unknown
    begin: Ids
    end: Ids  # released by a backward, or freed with its node or storage; NONE: still held

    def of(self, rows: np.ndarray) -> SavedRows:
        """Some of the rows."""
        columns = (self.holder, self.tensor, self.bytes, self.storage, self.begin, self.end)
        return SavedRows(*(column[rows] for column in columns))


@dataclass(frozen=True, slots=True)
class HeldPeriods:
    """Periods for which storages were held; equal-length columns."""

    row: Ids  # of the value that was saved first
    bytes: Ids  # of the tensors that were saved in it, at most those of the storage
    begin: Ids
    end: Ids  # NONE: still held

    def of(self, rows: np.ndarray) -> HeldPeriods:
        """Some of the periods."""
        columns = (self.row, self.bytes, self.begin, self.end)
        return HeldPeriods(*(column[rows] for column in columns))


@dataclass(frozen=True, slots=True)
class OverTime:
    """The bytes held, from each of these moments on."""

    t: Ids
    bytes: Ids

    def at(self, t: int) -> int:
        """The bytes held after this moment."""
        place = int(np.searchsorted(self.t, t, side="right")) - 1
        return int(self.bytes[place]) if place >= 0 else 0

    def before(self, t: int) -> int:
        """The bytes held before this moment."""
        place = int(np.searchsorted(self.t, t)) - 1
        return int(self.bytes[place]) if place >= 0 else 0


def held(trace: Trace) -> SavedRows:
    saved, storages = trace.table(Saved), trace.table(Storage)
    holder, released = _holders(trace), saved["released"]
    freed = size = np.full(len(saved), NONE, np.int64)
    if len(storages):
        places = storages.positions(holder)
        freed = np.where(places == NONE, NONE, storages["freed"][places])
        size = np.where(places == NONE, NONE, storages["bytes"][places])
    end = np.where(released != NONE, released, _gone(trace))
    end = np.where(end != NONE, end, freed)
    return SavedRows(holder, saved["tensor"], saved["bytes"], size, saved["t"], end)


def _gone(trace: Trace) -> Ids:
    """When the node of each saved value was freed, where recorded."""
    saved, nodes = trace.table(Saved), trace.table(Node)
    if not len(nodes):
        return np.full(len(saved), NONE, np.int64)
    places = nodes.positions(saved["node"])
    return np.where(places == NONE, NONE, nodes["died"][places])


def saved_peak(trace: Trace) -> Peak:
    """The moment at which saved tensors held the most memory."""
    over = over_time(held(trace))
    if not len(over.t):
        return Peak(0, 0)
    most = int(np.argmax(over.bytes))
    return Peak(int(over.bytes[most]), int(over.t[most]))


def periods(all: SavedRows) -> HeldPeriods:
    """The periods for which storages were held, each from its first saver to its last release."""
    ended = all.end != NONE
    row = np.concatenate([np.arange(len(all.begin)), np.flatnonzero(ended)])
    t = np.concatenate([all.begin, all.end[ended]])
    change = np.concatenate(
        [np.ones(len(all.begin), np.int64), -np.ones(int(ended.sum()), np.int64)]
    )
    holder = all.holder[row]
    order = np.lexsort((change, t, holder))  # at one moment a release comes before a save
    row, t, change, holder = row[order], t[order], change[order], holder[order]
    held = _running_count(holder, change)
    first = np.flatnonzero((held == 1) & (change == 1))
    last = np.flatnonzero((held == 0) & (change == -1))
    at = np.minimum(np.searchsorted(last, first), max(len(last) - 1, 0))
    end = np.full(len(first), NONE, np.int64)
    if len(last):
        closes = (last[at] > first) & (holder[last[at]] == holder[first])
        end[closes] = t[last[at[closes]]]
    period = np.cumsum((held == 1) & (change == 1)) - 1
    return HeldPeriods(row[first], _sizes(all, row, period, len(first)), t[first], end)


def _sizes(all: SavedRows, row: Ids, period: Ids, many: int) -> Ids:
    """The bytes of each period: those of its tensors, each once, at most those of the storage.

    If the size of the storage is unknown, the tensors may be views of the same memory: then it is
    that of the largest.
    """
    row, period = row[period >= 0], period[period >= 0]
    order = np.lexsort((all.tensor[row], period))
    row, period = row[order], period[order]
    tensor = all.tensor[row]
    fresh = np.ones(len(row), bool)
    fresh[1:] = (period[1:] != period[:-1]) | (tensor[1:] != tensor[:-1])
    added, largest, most = (np.zeros(many, np.int64) for _ in range(3))
    np.add.at(added, period[fresh], all.bytes[row[fresh]])
    np.maximum.at(largest, period, all.bytes[row])
    most[period] = all.storage[row]
    return np.where(most == NONE, largest, np.minimum(added, most))


def over_time(all: SavedRows) -> OverTime:
    """The bytes held over time, each storage counted once."""
    return in_periods(periods(all))


def in_periods(found: HeldPeriods) -> OverTime:
    """The bytes held over time in these periods."""
    ended = found.end != NONE
    t = np.concatenate([found.begin, found.end[ended]])
    delta = np.concatenate([found.bytes, -found.bytes[ended]])
    order = np.lexsort((delta, t))
    return OverTime(t[order], np.cumsum(delta[order]))


def _holders(trace: Trace) -> Ids:
    """A number for each storage; a saved value without one counts separately."""
    saved, tensors = trace.table(Saved), trace.table(Tensor)
    by_itself = -2 - np.arange(len(saved), dtype=np.int64)
    if not len(tensors):
        return by_itself
    found = _viewed(trace, tensors.positions(saved["tensor"]))
    storage = np.where(found == NONE, NONE, tensors["storage"][found])
    return np.where(storage == NONE, by_itself, storage)


def _viewed(trace: Trace, places: Ids) -> Ids:
    """For each tensor the place of its base, if it is a view and the call was recorded."""
    tensors, ops = trace.table(Tensor), trace.table(Op)
    names = distinct(ops["name"]).tolist()
    views = [name for name in names if trace.text(name).partition(".")[0] in VIEWS]
    if not views:
        return places
    inputs = ops.ragged("inputs")
    first = np.where(inputs.lengths > 0, inputs.offsets[:-1], 0)
    given = inputs.values[first] if len(inputs.values) else np.full(len(ops), NONE)
    is_view = np.isin(ops["name"], views) & (inputs.lengths > 0)
    for _ in range(MOST_VIEWS):
        call = np.where(places == NONE, NONE, ops.positions(tensors["op"][places]))
        base = np.where((call != NONE) & is_view[call], tensors.positions(given[call]), NONE)
        known = (base != NONE) & (tensors["storage"][base] != NONE) & (base != places)
        if not known.any():
            break
        places = np.where(known, base, places)
    return places


def _running_count(holder: Ids, change: Ids) -> Ids:
    """The cumulative changes of each holder, starting at zero."""
    total = np.cumsum(change)
    first = np.concatenate(([True], holder[1:] != holder[:-1]))
    before = np.where(first, total - change, 0)
    starts = np.maximum.accumulate(np.where(first, np.arange(len(holder)), 0))
    return total - before[starts]
