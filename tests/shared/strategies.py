"""Hypothesis strategies for traces, made from the schema: a new column is in them at once."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from gradscope.trace.schema import EVENTS, NONE, TABLES, Column, Row, String, columns
from gradscope.trace.trace import Trace
from tests.shared.by_hand import trace_of

INTEGERS = st.one_of(
    st.integers(-3, 40), st.sampled_from([-(2**63), 2**63 - 1, 10**12]), st.integers(0, 10**6)
)
ITEMS: dict[type, SearchStrategy[Any]] = {
    int: INTEGERS,
    float: st.floats() | st.sampled_from([0.0, -0.0, 1.5]),
    bool: st.booleans(),
    str: st.text(max_size=8)
    | st.sampled_from(["", "MulBackward0", '"><script>', "a\nb", "\u202e"]),
}
KINDS = [row for row in TABLES.values() if row is not String]


def cells(column: Column) -> SearchStrategy[Any]:
    """Anything one cell of a column can hold."""
    if column.json is not None:
        return st.just("") | st.sampled_from([{}, {"a": [1]}, [], ["b"]]).filter(
            lambda value: type(value) is column.json
        ).map(json.dumps)
    item = st.integers(NONE, 20) if column.ref else ITEMS[column.type]
    return st.lists(item, max_size=4).map(tuple) if column.many else item


def rows(kind: type[Row]) -> SearchStrategy[Row]:
    """Any row of a table; events are left to be numbered."""
    given = {column.name: cells(column) for column in columns(kind)}
    if "id" in given:
        given["id"] = st.integers(0, 60)
    if kind in EVENTS.values():
        given["seq"] = st.just(NONE)
    return st.builds(kind, **given)


def tables(kind: type[Row]) -> SearchStrategy[list[Row]]:
    """Some rows of one table, whose ids differ."""
    has_ids = any(column.name == "id" for column in columns(kind))
    unique = (lambda row: row.id) if has_ids else None
    short = st.lists(rows(kind), max_size=5, unique_by=unique)
    if has_ids:
        return short
    # Long tables of few different rows, so that constants, runs and steps come up, too.
    alike = st.lists(rows(kind), min_size=1, max_size=3)
    times = st.lists(st.integers(1, 30), min_size=3, max_size=3)
    return short | st.builds(_repeated, alike, times)


def _repeated(few: list[Row], times: list[int]) -> list[Row]:
    return [row for row, count in zip(few, times, strict=False) for _ in range(count)]


def traces() -> SearchStrategy[Trace]:
    """Any trace whose columns hold what they are declared to hold, sensible or not."""
    kinds = st.lists(st.sampled_from(KINDS), max_size=4, unique=True)
    parts = kinds.flatmap(lambda chosen: st.tuples(*map(tables, chosen)))
    return parts.map(lambda lists: trace_of(*(row for each in lists for row in each)))
