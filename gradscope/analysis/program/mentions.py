"""Everything that a trace holds about one row: all places of its id in other tables.

Which columns hold ids of which table is declared in the schema, so that a table or an event kind
that is added there is found here, too.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gradscope.analysis.lookups import Ids
from gradscope.trace.arrays import distinct
from gradscope.trace.schema.declare import EVENTS, TABLES, Event, Row, columns
from gradscope.trace.trace import Trace


@dataclass(frozen=True, slots=True)
class Mention:
    """A table and a column with references to a row, and the referring rows."""

    table: str
    column: str
    many: bool  # the column holds several ids
    rows: tuple[Row, ...]


def mentions(trace: Trace, table: str, id: int) -> tuple[Mention, ...]:
    """By table and column, the rows that name this row; those of events are in `events_about`."""
    found = []
    for name, kind in TABLES.items():
        if name in {f"event.{event}" for event in EVENTS}:
            continue
        for column in columns(kind):
            if column.ref == table and column.name != "id" and len(trace.table(kind)):
                places = _places(trace, kind, column.name, id, many=column.many)
                if len(places):
                    rows = trace.table(kind).take(places)
                    found.append(Mention(name, column.name, column.many, tuple(rows)))
    return tuple(found)


def events_about(trace: Trace, table: str, id: int) -> tuple[Event, ...]:
    """The events that name this row, in order."""
    found: dict[int, Event] = {}
    for kind in EVENTS.values():
        for column in columns(kind):
            if column.ref == table and len(trace.table(kind)):
                places = _places(trace, kind, column.name, id, many=column.many)
                found |= {event.seq: event for event in trace.table(kind).take(places)}
    return tuple(found[seq] for seq in sorted(found))


def _places(trace: Trace, kind: type[Row], column: str, id: int, *, many: bool) -> Ids:
    table = trace.table(kind)
    if not many:
        return np.flatnonzero(table[column] == id)
    ragged = table.ragged(column)
    return distinct(ragged.owners[ragged.values == id])
