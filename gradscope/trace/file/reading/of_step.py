"""The part of a trace file that a view of one step needs.

# Note [One step]
Most of a file is about what happened in single steps: calls, nodes, tensors, events. Of these
tables, `CONTENTS`, a view of one step needs the windows in which the step was recorded, and the
rows that those refer to: parameters, nodes that accumulate into them. Other tables are small and
are read whole, so steps, backwards and spans are counted as in the whole trace. The names of nodes
(`MulBackward0#2`) count all nodes of the trace: of other windows only their ids and names are read.
Events, calls and saved values are numbered when shorthand is expanded, so in such a part they have
other numbers, and a release of saved values in a later step is not in it: views that show these
read the whole.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, BinaryIO, Final, TypeAlias

import numpy as np

from gradscope.errors import UnreadableTraceError
from gradscope.trace.assemble import assemble
from gradscope.trace.file import column_text
from gradscope.trace.file.file_lines import ACCEPTED, FIRST, unseal
from gradscope.trace.file.latest.let_go import lets_go
from gradscope.trace.ragged import Ragged, take
from gradscope.trace.schema.declare import NONE, Row, columns
from gradscope.trace.shorthand import SHORT

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from gradscope.trace.file.index import Index, IndexEntry
    from gradscope.trace.file.scan import Scan
    from gradscope.trace.ragged import Integers
    from gradscope.trace.table import Block, Table

    Tables: TypeAlias = Mapping[str, Table[Row]]

CALLS: Final = "short.call"
BY_ID: Final = ("op", "node", "tensor", "storage")
"""Tables of which rows in other windows may be referred to; calls in shorthand are rows of each."""
OF_CALLS: Final = (CALLS, "short.view", "short.explicit")
SHARED: Final = frozenset({
    "short.operator", "short.slot", "short.layout", "short.context", "short.origin",
})  # fmt: skip
"""Tables in shorthand that calls of any window refer to."""
CONTENTS: Final = frozenset({
    *BY_ID, "edge", "saved", "version", "value", *SHORT.keys() - SHARED,
})  # fmt: skip
"""Tables that are read only in part, as are those of events."""
OF_PROGRAM: Final = ("module", "alias")
"""Tables whose tensors are needed for names, whatever the step."""
MISFIT: Final = "its index does not fit its lines; record it again"
WORTH_IT: Final = 1 << 22
"""Size of a file in bytes from which on it is faster to read only a part."""


@dataclass(frozen=True, slots=True)
class AllNodes:
    """The nodes of a whole trace, of which a part was read: their ids and names, in order."""

    ids: Integers
    names: Integers


def is_content(table: str) -> bool:
    return table in CONTENTS or table.startswith("event.")


def read_step(file: BinaryIO, index: Index, number: int, scan: Scan) -> AllNodes | None:
    """Read the blocks for the step with this number into `scan`; None: read the whole file.

    The whole is needed if the step did not end, has no backward or is not there, and if steps were
    let go. It is read if most of it belongs to the step, and if the file is older.
    """
    places = index.entries
    if not places or any(p.first_id == NONE for p in places if p.table in {CALLS, *BY_ID}):
        return None
    part = _Part(file, index.entries, scan)
    scan.read_line(1, file.readline(FIRST))
    part.read(n for n, place in enumerate(places) if not is_content(place.table))
    tables = part.tables(("step", "meta", "string", "graph_task"))
    step, with_backward = tables["step"], tables["graph_task"].array("step")
    rows = np.flatnonzero(step.array("number") == number)
    ids, begin, end = (step.array(name)[rows] for name in ("id", "begin", "end"))
    several = len(np.unique(with_backward[with_backward != NONE])) > 1
    if not (several and np.isin(ids, with_backward).any()):
        return None
    if (end == NONE).any() or lets_go(tables["meta"]):
        return None
    windows = part.windows(int(begin.min()), int(end.max()))
    contents = [n for n, place in enumerate(places) if is_content(place.table)]
    chosen = [n for n in contents if places[n].window in windows]
    if 2 * part.size(chosen) > part.size(contents):
        return None
    part.read(chosen)
    whole = part.complete(ids)
    scan.blocks = part.ordered()
    return part.all_nodes(whole["node"])


@dataclass(slots=True)
class _Part:
    """The blocks that were read, by their position in the index."""

    file: BinaryIO
    entries: tuple[IndexEntry, ...]
    scan: Scan
    blocks: dict[int, Block] = field(default_factory=dict)

    def read(self, numbers: Iterable[int]) -> None:
        for number in sorted(set(numbers) - self.blocks.keys()):
            self.scan.read_line(number + 2, self._line(number))
            if self.scan.lost:
                raise UnreadableTraceError(MISFIT)
            self.blocks[number] = self.scan.blocks.pop()

    def _line(self, number: int) -> bytes:
        place = self.entries[number]
        self.file.seek(place.offset)
        return self.file.read(place.length)

    def size(self, numbers: Iterable[int]) -> int:
        return sum(self.entries[number].length for number in numbers)

    def ordered(self) -> list[Block]:
        return [self.blocks[number] for number in sorted(self.blocks)]

    def tables(self, only: Collection[str] = ()) -> Tables:
        """The rows of the blocks that were read; `only`: of some tables."""
        room = ACCEPTED * (self.entries[-1].offset + self.entries[-1].length)
        return assemble([b for b in self.ordered() if not only or b.table in only], room).tables

    def windows(self, begin: int, end: int) -> Collection[int]:
        """The windows in which something happened in this time, and those next to them."""
        every = sorted({place.window for place in self.entries})
        inside = [
            place.window
            for place in self.entries
            if is_content(place.table) and place.first_time <= end and place.last_time >= begin
        ]
        if not inside:
            return ()
        first, last = bisect_left(every, min(inside)), bisect_left(every, max(inside))
        return frozenset(every[max(first - 1, 0) : last + 2])

    def complete(self, steps: Integers) -> Tables:
        """Read what the rows refer to, and what was added to them later; return all rows.

        What they refer to refers to more: it is read, too, as far as a row names one other.
        """
        tables = self.tables()
        wanted = _named(tables, steps)
        while True:
            wanted = {name: ids for name, ids in _unknown(tables, wanted).items() if len(ids)}
            before = len(self.blocks)
            self.read([*self._with_ids(wanted), *self._amending(tables)])
            if len(self.blocks) == before:
                return tables
            tables = self.tables()
            wanted = _named_by(tables, wanted)

    def _with_ids(self, wanted: Mapping[str, Integers]) -> Iterator[int]:
        """The blocks with these rows."""
        windows = set()
        for number, place in enumerate(self.entries):
            for table, ids in wanted.items():
                if place.table in {table, CALLS} and _is_within(place, ids):
                    yield number
                    windows.add(place.window if place.table == CALLS else NONE)
        for number, place in enumerate(self.entries):
            if place.table in OF_CALLS and place.window in windows:
                yield number

    def _amending(self, tables: Tables) -> Iterator[int]:
        """The blocks that may amend rows of these tables."""
        ids = {name: np.sort(tables[name].array("id")) for name in BY_ID}
        for number, place in enumerate(self.entries):
            if place.table in ids and _is_within(place, ids[place.table]):
                yield number

    def all_nodes(self, own: Table[Row]) -> AllNodes:
        """The nodes of all windows; `own`: those that were read."""
        of_call = _node_names([b for b in self.blocks.values() if b.table == "short.operator"])
        ids, names = [own.array("id")], [own.array("name")]
        for number, place in enumerate(self.entries):
            if number in self.blocks or place.table not in {"node", CALLS}:
                continue
            line = unseal(self._line(number))
            if line is None:
                raise UnreadableTraceError(MISFIT)
            if line.get("amend") is True:
                continue
            if place.table == "node":
                ids.append(_cells(line, "id", place.length))
                names.append(_cells(line, "name", place.length))
                continue
            made = _cells(line, "topological", place.length) >= 0
            calls = _cells(line, "op", place.length)[made]
            if len(calls) and not 0 <= int(calls.min()) <= int(calls.max()) < len(of_call):
                raise UnreadableTraceError("short.call.op is not the number of an operation")
            ids.append(_cells(line, "number", place.length)[made])
            names.append(of_call[calls])
        return _in_order(np.concatenate(ids), np.concatenate(names))


def _in_order(ids: Integers, names: Integers) -> AllNodes:
    order = np.argsort(ids, kind="stable")
    return AllNodes(ids[order], names[order])


def _cells(line: Mapping[str, Any], name: str, length: int) -> Integers:
    """A column of integers of a line of this many bytes."""
    rows = line.get("rows")
    if type(rows) is not int or not 0 < rows <= ACCEPTED * length:
        raise UnreadableTraceError(MISFIT)
    found = column_text.DECODERS[int](line.get(name, 0), rows)
    if len(found) != rows:
        raise UnreadableTraceError(MISFIT)
    return np.asarray(found)


def _node_names(blocks: Sequence[Block]) -> Integers:
    """The name of the node that a call of each operator creates."""
    nothing = np.zeros(0, np.int64)
    numbers, names = (
        np.concatenate([nothing, *(np.asarray(block.data[name]) for block in blocks)])
        for name in ("number", "node_name")
    )
    made = np.zeros(int(numbers.max(initial=NONE)) + 1, np.int64)
    made[numbers] = names
    return made


def _is_within(place: IndexEntry, rising: Integers) -> bool:
    """Whether one of these ids may be in the block."""
    at = int(np.searchsorted(rising, place.first_id))
    return at < len(rising) and int(rising[at]) <= place.last_id


def _named(tables: Tables, steps: Integers) -> dict[str, Integers]:
    """The ids that the rows that were read name: of other tables, those of these steps."""
    found: dict[str, list[Integers]] = {name: [] for name in BY_ID}
    for name, table in tables.items():
        if is_content(name) or name in OF_PROGRAM:
            rows = np.arange(len(table))
        elif "step" in table.data:
            rows = np.flatnonzero(np.isin(table.array("step"), steps))
        else:
            continue
        _add_refs(found, table, rows, lists=True)
    return {name: np.unique(np.concatenate(ids)) for name, ids in found.items() if ids}


def _named_by(tables: Tables, wanted: Mapping[str, Integers]) -> dict[str, Integers]:
    """The ids that these rows name in columns of one id, and the leaf of a node."""
    found: dict[str, list[Integers]] = {name: [] for name in BY_ID}
    for name, ids in wanted.items():
        table = tables[name]
        rows = table.positions(ids)
        _add_refs(found, table, rows[rows != NONE], lists=name == "node")
    return {name: np.unique(np.concatenate(ids)) for name, ids in found.items() if ids}


def _add_refs(
    found: Mapping[str, list[Integers]], table: Table[Row], rows: Integers, *, lists: bool
) -> None:
    for column in columns(table.row_type) if table.row_type else ():
        ref = column.ref
        if ref is None or ref not in found:
            continue
        cells = take(table.data[column.name], rows)
        if not isinstance(cells, Ragged):
            found[ref].append(cells)
        elif lists:
            found[ref].append(cells.values)


def _unknown(tables: Tables, named: Mapping[str, Integers]) -> dict[str, Integers]:
    return {
        name: ids[(ids != NONE) & (tables[name].positions(ids) == NONE)]
        for name, ids in named.items()
    }
