"""All events of a trace in one order: those of the engine and of the program."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from gradscope.errors import UnknownNameError
from gradscope.trace.arrays import distinct
from gradscope.trace.schema import NONE, Act, Mark, Op, StatementAct, Step, Version
from gradscope.trace.schema.declare import EVENTS, Event, Row

if TYPE_CHECKING:
    from gradscope.analysis.lookups import Ids
    from gradscope.trace.trace import Trace

BESIDES: dict[type[Row], str] = {Op: "begin", Version: "t", Act: "t", Mark: "t", Step: "begin"}
"""Rows that are moments besides the engine's events, and their time columns."""


class Moments:
    """All moments by number, in the order of time; events of the engine keep their order."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.kinds: tuple[type[Row], ...] = (*EVENTS.values(), *BESIDES)
        order = trace.order()
        kind, row, t = [order.kind], [order.position], [self._times_of_events()]
        are = [np.ones(len(order.kind), bool)]
        for code, each in enumerate(BESIDES, len(EVENTS)):
            table = trace.table(each)
            kind.append(np.full(len(table), code, np.int64))
            row.append(np.arange(len(table)))
            t.append(np.asarray(table[BESIDES[each]], np.int64))
            are.append(np.ones(len(table), bool) if each is not Act else self._acts_that_are())
        times = np.concatenate(t)
        rising = np.argsort(times, kind="stable")
        rising = rising[np.concatenate(are)[rising]]
        self.t: Ids = times[rising]
        self.kind: Ids = np.concatenate(kind)[rising]
        self.row: Ids = np.concatenate(row)[rising]
        number: Ids = np.full(len(times), NONE, np.int64)
        number[rising] = np.arange(len(rising))
        self.of_events: Ids = number[: len(order.seq)]
        """The moment of each event in `Trace.order()`."""
        self._numbers: Ids = number
        self._of: dict[type[Row], Ids] = {}

    def _acts_that_are(self) -> np.ndarray:
        """Acts without those found in the source, which are recorded at the end."""
        kinds = np.asarray(self.trace.table(Act)["kind"])
        read = [
            text for text in distinct(kinds).tolist() if self.trace.text(text) == StatementAct.KIND
        ]
        return ~np.isin(kinds, read)

    def _times_of_events(self) -> Ids:
        """The times of events, made monotonic: `seq` decides the order across threads."""
        times = self.trace.event_column("t")
        return np.maximum.accumulate(times) if len(times) else times

    def __len__(self) -> int:
        return len(self.t)

    @cached_property
    def _offsets(self) -> dict[type[Row], int]:
        """The offset in `_numbers` of each table that is no event."""
        found: dict[type[Row], int] = {}
        at = len(self.of_events)
        for each in BESIDES:
            found[each] = at
            at += len(self.trace.table(each))
        return found

    def of(self, kind: type[Row]) -> Ids:
        """The moment of each row of a table, in the order of the table; NONE for rows without."""
        found = self._of.get(kind)
        if found is None:
            found = self._of[kind] = self._found(kind)
        return found

    def _found(self, kind: type[Row]) -> Ids:
        if issubclass(kind, Event):
            order = self.trace.order()
            mine = order.kind == self.kinds.index(kind)
            found = np.empty(int(mine.sum()), np.int64)
            found[order.position[mine]] = self.of_events[mine]
            return found
        first: int = self._offsets[kind]
        last = first + len(self.trace.table(kind))
        return self._numbers[first:last]

    def since(self, t: Ids | int) -> Ids:
        """The first moments not before these times; the number of moments for NONE."""
        at = np.asarray(t, np.int64)
        return np.where(at == NONE, len(self), np.searchsorted(self.t, at, side="left"))

    def of_seq(self, seq: int) -> int:
        return int(self.of_events[self.trace.place_of(seq)])

    def at(self, number: int) -> Row:
        """The row of a moment: an engine event, a forward call, a write, a program event."""
        if not 0 <= number < len(self):
            raise UnknownNameError(
                f"there is no moment {number:,}: this trace has {len(self):,}, numbered from 0"
            )
        kind = self.kinds[int(self.kind[number])]
        return self.trace.table(kind).at(int(self.row[number]))
