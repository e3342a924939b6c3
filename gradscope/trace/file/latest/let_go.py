"""Removes references to rows that a recording let go: see Note [Latest steps] in ring.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from gradscope.trace.ragged import Ragged, take
from gradscope.trace.schema.declare import NONE, columns
from gradscope.trace.table import Table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gradscope.trace.ragged import Array, Data
    from gradscope.trace.schema.declare import Row

LET_GO: Final = "let_go"
"""The fact about the run that says that a recording lets steps go, and how many."""

OWNERS: Final = {
    "edge": ("node",), "saved": ("node",), "version": ("storage",), "shard": ("tensor",),
    "gathered": ("leaf",), "alias": ("tensor",), "plan_call": ("plan",), "replay": ("plan",),
    "bucket": ("span",), "collective": ("span",), "passed": ("span",), "used": ("span",),
    "handle": ("span",), "work": ("span",), "device_time": ("task",),
}  # fmt: skip
"""Columns without which a row says nothing. For events: the task and the node."""
OF_EVENTS: Final = ("task", "node")


def lets_go(meta: Table[Row]) -> bool:
    """Whether steps were let go, according to the facts about the run."""
    return LET_GO in meta.texts("key")


def without_missing(tables: Mapping[str, Table[Row]]) -> dict[str, Table[Row]]:
    """The tables, without references to rows that do not exist."""
    made = dict(tables)
    changed = True
    while changed:  # rows that go may be referred to by others
        changed = False
        for name, table in list(made.items()):
            whole = _whole(name, table, made)
            if not whole.all():
                rows = np.flatnonzero(whole)
                data = {key: take(column, rows) for key, column in table.data.items()}
                made[name] = Table(name, table.row_type, data, table.strings)
                changed = True
    return {name: _emptied(table, made) for name, table in made.items()}


def _whole(name: str, table: Table[Row], tables: Mapping[str, Table[Row]]) -> Array:
    """Which rows have everything without which they say nothing."""
    whole = np.ones(len(table), np.bool_)
    if name.startswith("act."):
        owners: tuple[str, ...] = ("id",)
    else:
        owners = OF_EVENTS if name.startswith("event.") else OWNERS.get(name, ())
    for column in columns(table.row_type) if table.row_type else ():
        if column.name in owners and column.ref is not None and not column.many:
            whole &= ~_missing(table.array(column.name), tables[column.ref])
    return whole


def _emptied(table: Table[Row], tables: Mapping[str, Table[Row]]) -> Table[Row]:
    """The table with NONE for each id of a row that does not exist."""
    data: dict[str, Data] = dict(table.data)
    for column in columns(table.row_type) if table.row_type else ():
        if column.ref is None or column.ref == "string" or column.ref not in tables:
            continue
        cells: Any = data[column.name]
        ids = cells.values if isinstance(cells, Ragged) else cells
        missing = _missing(ids, tables[column.ref])
        if missing.any():
            ids = np.where(missing, NONE, ids)
            data[column.name] = Ragged(cells.offsets, ids) if isinstance(cells, Ragged) else ids
    return Table(table.name, table.row_type, data, table.strings)


def _missing(ids: Array, table: Table[Row]) -> Array:
    return np.asarray((ids != NONE) & (table.positions(ids) == NONE))
