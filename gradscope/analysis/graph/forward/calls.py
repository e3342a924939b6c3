"""The calls of a trace that a picture may show, in the order in which they started.

A call may contain others (`linear` calls `addmm`; a custom Function's forward is Python). One of
these stands for all: the outer one, unless only inner ones have recorded inputs or created
nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gradscope.analysis.lookups import Ids, counts, ranks
from gradscope.trace.arrays import distinct
from gradscope.trace.schema import NONE, Op, Version
from gradscope.trace.trace import Trace


@dataclass(frozen=True, slots=True)
class InPlaceWrite:
    """One write in place, by a call."""

    tensor: int
    storage: int
    old: int  # NONE, like `new`: unknown
    new: int


class ForwardCalls:
    """Calls by place: 0 is the one that started first."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.ops = trace.table(Op)
        self.writes = _writes_of(trace)  # by the call's id
        stands, self.within = _standing(trace, set(self.writes))
        self.rows: Ids = stands  # in the table of calls
        self.id: Ids = self.ops["id"][stands]
        self._ids: list[int] = self.id.tolist()
        self.node: Ids = self.ops["node"][stands]
        self.stack: Ids = self.ops["stack"][stands]
        self.module: Ids = self.ops["module"][stands]
        self.begin: Ids = self.ops["begin"][stands]
        self.end: Ids = self.ops["end"][stands]
        self.inputs: list[tuple[int, ...]] = self.ops.ragged("inputs").take(stands).tuples()
        self.outputs: list[tuple[int, ...]] = self.ops.ragged("outputs").take(stands).tuples()

    def __len__(self) -> int:
        return len(self.rows)

    # Names ---------------------------------------------------------------------------------------

    @cached_property
    def names(self) -> list[str]:
        """By place, without overloads: `mul` for `mul.Tensor`."""
        texts = {
            id: self.trace.text(id).partition(".")[0] for id in distinct(self.ops["name"]).tolist()
        }
        return [texts[name] for name in self.ops["name"][self.rows].tolist()]

    @cached_property
    def _numbered(self) -> tuple[Ids, Ids]:
        numbers = {name: number for number, name in enumerate(sorted(set(self.names)))}
        keys = np.array([numbers[name] for name in self.names], np.int64)
        return ranks(keys) + 1, counts(keys)

    def of(self, place: int) -> str:
        """The unique name: `mul#2`; unchanged if only one call has it."""
        ordinal = self.ordinals[place]
        return f"{self.names[place]}#{ordinal}" if ordinal else self.names[place]

    @cached_property
    def ordinals(self) -> Ids:
        """By place, the number among calls of the same name, from 1; 0 if it is the only one."""
        ordinals, many = self._numbered
        return np.where(many == 1, 0, ordinals)

    @cached_property
    def unconnected(self) -> Ids:
        """The places of calls whose inputs or results were not recorded."""
        known = self.node != NONE
        for column in ("inputs", "outputs"):
            known |= self.ops.ragged(column).lengths[self.rows] > 0
        return np.flatnonzero(~known & ~np.isin(self.id, sorted(self.writes)))

    def written(self, place: int) -> Sequence[InPlaceWrite]:
        """The in-place writes of a call."""
        return self.writes.get(self._ids[place], ()) if self.writes else ()


def _writes_of(trace: Trace) -> dict[int, list[InPlaceWrite]]:
    found: dict[int, list[InPlaceWrite]] = {}
    for row in trace.rows(Version):
        if row.op != NONE:
            write = InPlaceWrite(row.tensor, row.storage, row.old, row.new)
            found.setdefault(row.op, []).append(write)
    return found


def _around(threads: Ids, begin: Ids, end: Ids, order: Ids) -> Ids:
    """By row, the innermost call around it on the same thread.

    `order`: the rows that may be inside or around another.
    """
    found = np.full(len(begin), NONE, np.int64)
    above: list[int] = []
    columns = threads.tolist(), begin.tolist(), end.tolist()
    for row in order.tolist():
        thread, first, last = (column[row] for column in columns)
        if last == NONE:
            continue
        while above:
            around, since, until = (column[above[-1]] for column in columns)
            if around == thread and last <= until and (first, last) != (since, until):
                found[row] = above[-1]
                break
            above.pop()
        above.append(row)
    return found


def _may_touch(threads: Ids, begin: Ids, end: Ids, order: Ids) -> np.ndarray:
    """A mask of the calls, sorted by thread and start, that overlap another one."""
    every = distinct(threads)
    apart = max(int(end.max(initial=0)), int(begin.max(initial=0))) + 2
    if apart * (len(every) + 1) > np.iinfo(np.int64).max:  # times that no clock tells: their order
        times = distinct(np.concatenate([begin, end]))
        begin, end = np.searchsorted(times, begin), np.searchsorted(times, end)
        apart = len(times) + 2
    offset = apart * np.searchsorted(every, threads[order])
    first, last = begin[order] + offset, np.maximum(begin[order], end[order]) + offset
    touches = np.zeros(len(order), np.bool_)
    following, takes = first[1:], first[1:] < last[1:]  # equal to an end: not before it
    touches[1:] = following + takes <= np.maximum.accumulate(last)[:-1]
    touches[:-1] |= following + takes <= last[:-1]
    return touches


def _standing(trace: Trace, writers: set[int]) -> tuple[Ids, dict[int, int]]:
    """The rows of calls that are shown, and the number of calls inside each of them."""
    ops = trace.table(Op)
    begin, end = ops["begin"], ops["end"]
    known = (ops["node"] != NONE) | np.isin(ops["id"], sorted(writers))
    for column in ("inputs", "outputs"):
        known |= ops.ragged(column).lengths > 0
    # Of two calls that began at once, the one that ended later is around the other.
    order = np.lexsort((np.arange(len(ops)), -end, begin, ops["thread"]))
    touching = _may_touch(ops["thread"], begin, end, order)
    apart, order = order[~touching], order[touching]
    parent = _around(ops["thread"], begin, end, order)
    made = ops["node"] != NONE
    tells, makes = known.copy(), made.copy()  # of itself, or something inside it does
    for row in order[::-1].tolist():
        if parent[row] != NONE:
            tells[parent[row]] |= tells[row]
            makes[parent[row]] |= makes[row]
    known &= made | ~makes
    inside: dict[int, int] = {}
    stands = []
    stand_in = np.full(len(ops), NONE, np.int64)  # by row: the outer call that stands for it
    for row in order.tolist():
        around = parent[row]
        if around != NONE:
            stand_in[row] = stand_in[around]
        if stand_in[row] != NONE:
            inside[int(stand_in[row])] = inside.get(int(stand_in[row]), 0) + 1
        elif known[row] or not tells[row]:
            stand_in[row] = row
            stands.append(row)
    rows = np.concatenate([apart, np.array(stands, np.int64)])
    return rows[np.lexsort((rows, begin[rows]))], inside
