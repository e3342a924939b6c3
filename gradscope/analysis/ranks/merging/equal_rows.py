"""Ranks with equal rows, so that what a rule finds in one of them holds in all.

Rows are equal if they differ only in what no rule about a single rank reads: in ids that are
counted from another start, in the name and number of the rank, in the data that it was given, and
in times, as long as they have the same order. A rank with recorded values is equal to no other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from gradscope.trace.ragged import Data, Integers, Ragged
from gradscope.trace.schema import NONE, TABLES, Phase, Span, Thread, Value
from gradscope.trace.schema.declare import Column, Row, columns
from gradscope.trace.schema.sharding import BackendWork, Bucket, Handle, Used

OWN_FACTS = frozenset(("rank", "pid", "host", "clock_base", "own_time"))
OWN_COLUMNS = {
    Thread.TABLE: frozenset(("name", "native", "rank")),
    "act.sampler": frozenset(("rank",)),
    "act.loader": frozenset(("part",)),
    "act.batch": frozenset(("samples",)),
    "act.split": frozenset(("digest",)),
    "act.given": frozenset(("digests",)),
    "act.drew": frozenset(("digest",)),
}
"""What only rules about several ranks read."""
OF_EXCHANGES = frozenset((BackendWork.TABLE, Used.TABLE, Handle.TABLE, Bucket.TABLE))
"""Tables whose times depend on when other ranks arrive; so do those of the spans of collectives."""
SEED = "act.seed", "seed"


@dataclass(frozen=True, slots=True)
class SortedRows:
    """The rows of a table, sorted by rank."""

    data: Mapping[str, Data]
    owners: Integers  # the index of the rank of each row; NONE: of no rank
    starts: Integers  # by the index of the rank, the first of its rows; one more at the end


Ids = Sequence[Mapping[str, Sequence[int]]]
"""By the index of the rank, and by table: the first id of the rank."""


def row_keys(tables: Mapping[str, SortedRows], ids: Ids) -> list[bytes]:
    """A key for the rows of each rank: equal keys mean equal rows."""
    keys = [blake2b() for _ in ids]
    times: list[list[bytes]] = [[] for _ in ids]
    queues = _first_queues(tables, len(ids))
    for name, rows in tables.items():
        if not len(rows.owners):
            continue
        compared = _Compared(name, TABLES[name], rows, ids, queues)
        ends = rows.starts.tolist()
        for rank, key in enumerate(keys):
            start, end = ends[rank : rank + 2]
            if end > start:
                key.update(f"{name} {end - start} ".encode())
                for piece in compared.between(start, end):
                    key.update(piece)
                times[rank].append(compared.times[:, start:end].tobytes())
    for rank, key in enumerate(keys):
        key.update(_order(np.frombuffer(b"".join(times[rank]), np.int64)))
    if Value.TABLE in tables:
        for rank in np.flatnonzero(np.diff(tables[Value.TABLE].starts)).tolist():
            keys[rank].update(f"rank {rank}".encode())
    return [key.digest() for key in keys]


def fact_key(facts: Mapping[str, Any]) -> bytes:
    """A key for the facts of a rank that a rule about this rank can read."""
    return orjson.dumps({key: value for key, value in facts.items() if key not in OWN_FACTS})


class _Compared:
    """The columns of a table that are compared, as numbers, with ids counted from 0 by rank."""

    def __init__(
        self, name: str, row: type[Row], rows: SortedRows, ids: Ids, queues: Integers
    ) -> None:
        self._name, self._rows, self._ids, self._queues = name, rows, ids, queues
        flat, times = [], []
        self._lists: list[tuple[Integers, Any]] = []
        for column in columns(row):
            cells = rows.data.get(column.name)
            if cells is None or column.name in OWN_COLUMNS.get(name, ()):
                continue
            if column.time:
                if name not in OF_EXCHANGES:
                    times.append(self._time(cells))
            elif isinstance(cells, Ragged):
                owners = np.repeat(rows.owners, cells.lengths)
                flat.append(cells.lengths)
                self._lists.append((cells.offsets, self._cells(column, cells.values, owners)))
            else:
                flat.append(self._cells(column, cells, rows.owners))
        self._flat = _stacked(flat, len(rows.owners))
        self.times = _stacked(times, len(rows.owners))

    def between(self, start: int, end: int) -> Iterator[bytes]:
        yield self._flat[:, start:end].tobytes()
        for offsets, values in self._lists:
            yield values[offsets[start] : offsets[end]].tobytes()

    def _time(self, cells: Any) -> Integers:
        """The times in the order of which ranks may differ."""
        if self._name == Span.TABLE:
            return np.where(self._rows.data["phase"] == Phase.COLLECTIVE, NONE, cells)
        return np.asarray(cells)

    def _cells(self, column: Column, data: Any, owners: Integers) -> Integers:
        is_float = data.dtype.kind == "f"
        cells: Integers = data.view(np.int64) if is_float else data.astype(np.int64, copy=False)
        if is_float:
            return cells
        if (self._name, column.name) == SEED:
            return self._seeds(cells)
        if column.name == "queue":
            return _moved(cells, self._queues[owners], cells >= 0)
        table = column.ref or (self._name if column.name == "id" else None)
        if table is None:
            return cells
        first = np.array([each.get(table, (0,))[0] for each in self._ids], np.int64)
        return _moved(cells, first[owners], (cells >= 0) & (owners >= 0))

    def _seeds(self, cells: Integers) -> Integers:
        """Which seeds of a rank are equal, and which are unknown; not what they are."""
        found: Integers = cells.copy()
        for start, end in zip(self._rows.starts[:-1], self._rows.starts[1:], strict=True):
            known: dict[int, int] = {0: 0}
            found[start:end] = [known.setdefault(x, len(known)) for x in cells[start:end].tolist()]
        return found


def _moved(cells: Integers, by: Integers, moves: NDArray[np.bool_]) -> Integers:
    found: Integers = np.where(moves, cells - by, cells)
    return found


def _stacked(arrays: Sequence[Integers], rows: int) -> Integers:
    return np.stack(arrays) if arrays else np.zeros((0, rows), np.int64)


def _first_queues(tables: Mapping[str, SortedRows], ranks: int) -> Integers:
    """The smallest number of a queue of each rank."""
    first = np.full(ranks + 1, np.iinfo(np.int64).max)
    for rows in tables.values():
        if "queue" in rows.data:
            queues = np.asarray(rows.data["queue"])
            known = (queues >= 0) & (rows.owners >= 0)
            np.minimum.at(first, rows.owners[known], queues[known])
    return first


def _order(times: Integers) -> bytes:
    """The order of times, and which are equal."""
    order = np.argsort(times, kind="stable")
    rising = times[order]
    alike: bytes = (rising[1:] == rising[:-1]).tobytes()
    return order.tobytes() + alike
