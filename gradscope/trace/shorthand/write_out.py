"""Replaces short blocks by the rows they stand for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gradscope.errors import UnreadableTraceError
from gradscope.trace.schema.declare import NONE
from gradscope.trace.schema.events import SavedUnpacked
from gradscope.trace.schema.tables import GraphTask, Saved, Tensor
from gradscope.trace.shorthand import foretold, short_looks
from gradscope.trace.shorthand.run_events import ShortRuns
from gradscope.trace.shorthand.short_calls import ShortCalls
from gradscope.trace.shorthand.short_columns import Ints, ShortColumns
from gradscope.trace.shorthand.tables import SHORT
from gradscope.trace.shorthand.values import with_events

if TYPE_CHECKING:
    from gradscope.trace.table import Block

__all__ = ["SHORT", "expanded"]


CELLS = {"short.saved": 10, "short.run": 23, "short.move": 23, "short.event": 11,
         "short.dependency": 6, "short.look": 54}  # fmt: skip
"""Approximate number of cells a short row stands for, except for calls."""


def expanded(blocks: Iterable[Block], make: type[Block], room: int | None = None) -> list[Block]:
    """The blocks, with rows instead of shorthand. `make` creates a block; `room`: allowed cells.

    See Note [Bounded expansion].
    """
    short: defaultdict[str, list[Block]] = defaultdict(list)
    plain: list[Block] = []
    for block in blocks:
        (short[block.table] if block.table in SHORT else plain).append(block)
    if not short:
        return plain
    if any(block.amend for parts in short.values() for block in parts):
        raise UnreadableTraceError("shorthand cannot be amended")
    told: dict[int, Callable[[], short_looks.AsForetold]] = {}
    orders = foretold.add_replayed(plain, short, make, room, told if short["short.look"] else None)
    if orders is not None:
        plain.append(orders)
    tables = {name: ShortColumns(row, short.get(name, ())) for name, row in SHORT.items()}
    for name in SHORT.keys() - {"short.event"}:  # their rows are in `tables` now
        short.pop(name, None)
    made: list[Block] = []

    def put(row: Any, columns: Mapping[str, Any]) -> None:
        rows = len(next(iter(columns.values())))
        if rows:
            made.append(make(row.TABLE, rows, columns))

    tensors, sizes = _gathered(plain, Tensor.TABLE, ("id", "bytes"))
    calls = ShortCalls(tables, (tensors, sizes))
    if room is not None and room < calls.cells() + _cells(tables):
        raise UnreadableTraceError("its shorthand stands for more cells than its lines allow")
    calls.write(put)
    id, thread, depth = _gathered(plain, GraphTask.TABLE, ("id", "thread", "depth"))
    runs = ShortRuns(tables, {"id": id, "thread": thread, "depth": depth})
    runs.write()
    values = short_looks.written(tables["short.look"], told, short, make)
    plain = with_events([*plain, *([] if values is None else [values])], runs.made, make)
    saved = calls.saved(tables["short.saved"])
    for part in runs.made.get(SavedUnpacked, ()):
        part["saved"] = _saved_of(saved, part["node"], part["saved"])
    _release(saved, runs.released)
    put(Saved, saved)
    for kind in [*runs.made]:
        parts = runs.made.pop(kind)
        columns = {name: np.concatenate([p[name] for p in parts]) for name in parts[0]}
        order = np.argsort(columns["seq"], kind="stable")
        put(kind, {name: column[order] for name, column in columns.items()})
    # Amendments come after the rows they amend, wherever these were written.
    return [*(b for b in plain if not b.amend), *made, *(b for b in plain if b.amend)]


def _cells(tables: Mapping[str, ShortColumns]) -> int:
    return sum(tables[name].rows * each for name, each in CELLS.items())


def _saved_of(saved: Mapping[str, Any], node: Ints, place: Ints) -> Ints:
    """The id of a saved value, by its index among the saved values of its node."""
    if not len(saved["node"]):
        return np.full(len(node), NONE)
    order = np.argsort(saved["node"], kind="stable")
    owner = saved["node"][order]
    known = (place >= 0) & (place < len(owner))
    found = np.searchsorted(owner, node) + np.where(known, place, 0)
    at = np.minimum(found, len(owner) - 1)
    return np.where(
        known & (found < len(owner)) & (owner[at] == node), saved["id"][order][at], NONE
    )


def _release(saved: dict[str, Any], released: Sequence[tuple[Ints, Ints, Ints]]) -> None:
    """Set the time and the task of the release of saved tensors."""
    node, t, task = (np.concatenate(parts) for parts in zip(*released, strict=True))
    if not len(node) or not len(saved["node"]):
        return
    order = np.lexsort((t, node))
    node, t, task = node[order], t[order], task[order]
    place = np.minimum(np.searchsorted(node, saved["node"]), len(node) - 1)
    gone = node[place] == saved["node"]
    saved["released"] = np.where(gone, t[place], NONE)
    saved["task"] = np.where(gone, task[place], NONE)


def _gathered(blocks: Iterable[Block], table: str, names: Sequence[str]) -> tuple[Ints, ...]:
    """Some columns of a table's blocks, joined; a column missing from a block is 0.

    Amendments of all these columns follow the rows that they amend.
    """
    own = [block for block in blocks if block.table == table]
    found = [block for block in own if not block.amend or {*names} <= {*block.data}]
    parts: dict[str, list[Ints]] = {name: [np.zeros(0, np.int64)] for name in names}
    for block in found:
        for name in names:
            data = block.data.get(name)
            if data is not None and getattr(data, "dtype", None) != np.int64:
                raise UnreadableTraceError(f"{table}.{name} holds no integers")
            parts[name].append(np.zeros(block.rows, np.int64) if data is None else data)  # type: ignore[arg-type]
    return tuple(np.concatenate(parts[name]) for name in names)
