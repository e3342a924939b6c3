"""Traces written by hand, row by row: for tests and examples."""

from __future__ import annotations

from collections import defaultdict
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson

from gradscope.trace.assemble import DTYPES, assemble
from gradscope.trace.ragged import Data, Ragged
from gradscope.trace.schema.declare import NONE, Column, Event, Row, columns
from gradscope.trace.schema.tables import Meta, String
from gradscope.trace.table import Block
from gradscope.trace.text import clean
from gradscope.trace.trace import Trace

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


def trace_of(*rows: Row, meta: Mapping[str, Any] | None = None) -> Trace:
    """A trace of these rows. Text is interned; events without `seq` are numbered as they come."""
    facts = [Meta(key, orjson.dumps(value).decode()) for key, value in (meta or {}).items()]
    strings: dict[str, int] = {"": 0}
    by_type: defaultdict[type[Row], list[Row]] = defaultdict(list)
    for row in [*facts, *_numbered(rows)]:
        by_type[type(row)].append(row)
    blocks = [_block(kind, of_kind, strings) for kind, of_kind in by_type.items()]
    interned = [String(id, text) for text, id in strings.items() if id]
    return Trace(assemble([_block(String, interned, {}), *blocks]).tables)


def _numbered(rows: Iterable[Row]) -> list[Row]:
    """The rows; an event without `seq` gets the one after the event before it."""
    numbers = count()
    made = []
    for row in rows:
        if isinstance(row, Event):
            if row.seq == NONE:
                row = type(row)(*(_cells(row) | {"seq": next(numbers)}).values())
            else:
                numbers = count(row.seq + 1)
        made.append(row)
    return made


def _cells(row: Row) -> dict[str, Any]:
    return {column.name: getattr(row, column.name) for column in columns(type(row))}


def _block(kind: type[Row], rows: Sequence[Row], strings: dict[str, int]) -> Block:
    data = {
        column.name: _column(column, [getattr(row, column.name) for row in rows], strings)
        for column in columns(kind)
    }
    return Block(kind.TABLE, len(rows), data)


def _column(column: Column, cells: list[Any], strings: dict[str, int]) -> Data:
    if column.interned:
        lists = cells if column.many else [[cell] for cell in cells]
        ids = [[strings.setdefault(clean(text), len(strings)) for text in each] for each in lists]
        return Ragged.of(ids) if column.many else Ragged.of(ids).values
    if column.many:
        return Ragged.of(cells, DTYPES[column.type])
    return np.array(cells, DTYPES[column.type])
