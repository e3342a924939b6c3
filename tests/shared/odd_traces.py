"""A trace with one thing changed: a text of an act, or a column that holds odd values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

from gradscope.trace.ragged import Data, Ragged
from gradscope.trace.schema import ACTS, Meta, String
from gradscope.trace.schema.declare import columns
from gradscope.trace.table import Strings, Table
from gradscope.trace.trace import Trace

HUGE = 2**62
ODD = ("", "text", "None", "1e999", "[]")
COLUMNS: Mapping[str, tuple[Any, ...]] = {
    "i": (-1, 0, HUGE), "f": (0.0, np.nan, np.inf, -1e300), "b": (False, True)
}  # fmt: skip
Change = tuple[str, Callable[[], Trace]]


def odd_texts(trace: Trace) -> Iterator[Change]:
    """Each column of text that acts have with another text in all rows."""
    strings = trace.table(String)
    first = int(strings["id"].max(initial=0)) + 1
    ids = np.concatenate([strings["id"], np.arange(first, first + len(ODD))])
    said = np.array([*strings["text"].tolist(), *ODD], object)
    for kind in ACTS.values():
        table = trace.tables.get(kind.TABLE)
        for column in columns(kind) if table is not None and len(table) else ():
            for number, odd in enumerate(ODD) if column.interned else ():
                cells = table.data[column.name]  # type: ignore[union-attr]
                values = cells.values if isinstance(cells, Ragged) else cells
                full: Data = np.full_like(values, first + number)
                full = Ragged(cells.offsets, full) if isinstance(cells, Ragged) else full
                data = {kind.TABLE: {**table.data, column.name: full}}  # type: ignore[union-attr]
                new = {**data, "string": {"id": ids, "text": said}}
                yield (
                    f"{kind.TABLE}.{column.name} {odd}",
                    partial(_with_tables, trace, new, Strings(ids, said)),
                )


def odd_columns(trace: Trace) -> Iterator[Change]:
    """Each column of numbers or lists with one value in all rows: none, the first, a huge one."""
    for table in trace.tables.values():
        if not len(table) or table.row_type is None or table.row_type in (Meta, String):
            continue
        for column in columns(table.row_type):
            data = table.data.get(column.name)
            if data is None or column.interned or column.name == "id":
                continue
            values = data.values if isinstance(data, Ragged) else data
            odd: list[Data] = []
            for value in COLUMNS.get(values.dtype.kind, ()):
                full = np.full_like(values, value)
                odd.append(Ragged(data.offsets, full) if isinstance(data, Ragged) else full)
            if isinstance(data, Ragged):
                odd.append(Ragged(np.zeros(len(table) + 1, np.int64), values[:0]))
            for number, each in enumerate(odd):
                about = f"{table.name}.{column.name} {number}"
                yield about, partial(_with_column, trace, table, column.name, each)


def _with_column(trace: Trace, table: Table[Any], name: str, data: Data) -> Trace:
    return _with_tables(trace, {table.name: {**table.data, name: data}}, table.strings)


def _with_tables(trace: Trace, data: Mapping[str, Mapping[str, Data]], strings: Strings) -> Trace:
    tables = {
        name: Table(name, table.row_type, data.get(name, table.data), strings)
        for name, table in trace.tables.items()
    }
    return Trace(tables, version=trace.version, truncated=trace.truncated, horizon=trace.horizon)
