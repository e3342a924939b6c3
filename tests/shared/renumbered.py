"""A trace whose rows have other ids, and otherwise say the same."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

from gradscope.trace.schema import Meta, String
from gradscope.trace.schema.declare import NONE, TABLES, Row, columns
from gradscope.trace.trace import Trace
from tests.shared.by_hand import trace_of


def renumbered(trace: Trace, seed: int) -> Trace:
    """The same rows in the same order, their ids dealt out anew among themselves."""
    chance = random.Random(seed)
    new: dict[str, dict[int, int]] = {}
    for name, kind in TABLES.items():
        if any(column.name == "id" for column in columns(kind)) and kind is not String:
            if name.startswith("act."):
                continue  # they have the ids of acts
            ids = trace.table(kind)["id"].tolist()
            new[name] = dict(zip(ids, chance.sample(ids, len(ids)), strict=True))
    kinds = [kind for kind in TABLES.values() if kind not in (Meta, String)]
    rows = [_row(row, new) for kind in kinds for row in trace.rows(kind)]
    return trace_of(*rows, meta=dict(trace.meta))


def _row(row: Row, new: dict[str, dict[int, int]]) -> Row:
    changed: dict[str, Any] = {}
    for column in columns(type(row)):
        value = getattr(row, column.name)
        own = new.get(column.ref or row.TABLE if column.name == "id" else column.ref or "")
        if own is None:
            continue
        if column.many:
            changed[column.name] = tuple(own.get(each, each) for each in value)
        elif value != NONE:
            changed[column.name] = own.get(value, value)
    return replace(row, **changed)
