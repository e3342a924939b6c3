"""A trace with one thing changed: a fact of an act, or a column that holds odd values."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

from gradscope.trace.ragged import Data, Ragged
from gradscope.trace.schema import Act, Meta, String
from gradscope.trace.schema.declare import columns
from gradscope.trace.table import Strings, Table
from gradscope.trace.trace import Trace

ABSENT = object()
HUGE = 2**62
ODD = (None, ABSENT, 10**30, -1, "text", 1.5, True, [None], ["x"], [10**30], [], {}, {"x": 1})
COLUMNS: Mapping[str, tuple[Any, ...]] = {
    "i": (-1, 0, HUGE), "f": (0.0, np.nan, np.inf, -1e300), "b": (False, True)
}  # fmt: skip
Change = tuple[str, Callable[[], Trace]]


def odd_facts(trace: Trace) -> Iterator[Change]:
    """Each fact of each kind of act as each of ODD."""
    acts = trace.table(Act)
    kinds, facts = acts.texts("kind"), [json.loads(text or "{}") for text in acts.texts("facts")]
    for kind, name in sorted({(k, name) for k, f in zip(kinds, facts, strict=True) for name in f}):
        of_kind = [n for n, f in enumerate(facts) if kinds[n] == kind and name in f]
        for odd in ODD:
            texts = {n: json.dumps(_with(facts[n], name, odd)) for n in of_kind}
            yield f"{kind}: {name} {odd}", partial(_with_texts, trace, acts, "facts", texts)


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


def _with(facts: dict[str, Any], name: str, odd: object) -> dict[str, Any]:
    others = {key: value for key, value in facts.items() if key != name}
    return others if odd is ABSENT else {**others, name: odd}


def _with_column(trace: Trace, table: Table[Any], name: str, data: Data) -> Trace:
    return _with_tables(trace, {table.name: {**table.data, name: data}}, table._strings)


def _with_texts(trace: Trace, table: Table[Any], name: str, texts: Mapping[int, str]) -> Trace:
    strings, ids = trace.table(String), table.array(name).copy()
    first = int(strings["id"].max(initial=0)) + 1
    new = np.arange(first, first + len(texts))
    ids[list(texts)] = new
    every = np.concatenate([strings["id"], new])
    said = np.array([*strings["text"].tolist(), *texts.values()], object)
    data: dict[str, Mapping[str, Data]] = {
        table.name: {**table.data, name: ids}, "string": {"id": every, "text": said}
    }  # fmt: skip
    return _with_tables(trace, data, Strings(every, said))


def _with_tables(trace: Trace, data: Mapping[str, Mapping[str, Data]], strings: Strings) -> Trace:
    tables = {
        name: Table(name, table.row_type, data.get(name, table.data), strings)
        for name, table in trace.tables.items()
    }
    return Trace(tables, version=trace.version, truncated=trace.truncated, horizon=trace.horizon)
