"""The index at the end of a trace file: where the rows of a table, a time, a step or an id are."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, Final, NamedTuple

import numpy as np

from gradscope.errors import UnreadableTraceError
from gradscope.trace.file import column_text
from gradscope.trace.file.file_lines import FIRST, LONGEST, seal, unseal
from gradscope.trace.ragged import Ragged
from gradscope.trace.schema.declare import NONE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gradscope.trace.table import Block

_TAIL: Final = re.compile(rb'"index_at":(\d{1,18})}\n$')
TIMES: Final = ("t", "begin", "born")
"""Columns with the start time of a row; the first one that its table has is used."""


class IndexEntry(NamedTuple):
    """One block line: its contents and its position. NONE if its table has no time, step or id."""

    table: str
    offset: int  # in the text
    length: int
    rows: int
    window: int
    first_time: int
    last_time: int
    first_step: int
    last_step: int
    first_id: int = NONE
    last_id: int = NONE


ADDED: Final = frozenset({"first_id", "last_id"})
"""Columns that the index of an older file lacks."""
IDS: Final = ("id", "number")
"""Columns with the id of a row: of a table, or of calls in shorthand."""


def entry(block: Block, offset: int, length: int, window: int) -> IndexEntry:
    """The index's entry for a block."""
    times = next((name for name in TIMES if name in block.data), "")
    return IndexEntry(
        block.table,
        offset,
        length,
        block.rows,
        window,
        *_extent(block, times),
        *_extent(block, "step"),
        *_extent(block, next((name for name in IDS if name in block.data), "")),
    )


def _extent(block: Block, name: str) -> tuple[int, int]:
    data = block.data.get(name)
    if data is None or isinstance(data, Ragged) or data.dtype.kind != "i":
        return NONE, NONE
    return int(data.min()), int(data.max())


def closing(entries: Sequence[IndexEntry], end: Mapping[str, Any], offset: int) -> bytes:
    """The last lines of a file, the end line and the index. `offset`: where they are written."""
    columns = dict(zip(IndexEntry._fields, map(list, zip(*entries, strict=True)), strict=False))
    tables = columns.pop("table", [])
    index = {"table": tables} | {
        name: column_text.encode(np.array(values, np.int64), explicit=True)
        for name, values in columns.items()
    }
    ending = seal({"end": True, **end}) + b"\n],\n"
    where = seal({**index, **end})
    if len(where) > LONGEST - FIRST:
        where = seal(end)  # without an index the file is read line by line
    return b'%s"index":%s,\n"index_at":%d}\n' % (ending, where, offset + len(ending))


@dataclass(frozen=True, slots=True)
class Index:
    """All entries of a file, and the contents of its end line."""

    entries: tuple[IndexEntry, ...]
    end: Mapping[str, Any]


def is_tail(line: bytes) -> bool:
    """Whether this is the last line of a file that was closed."""
    return _TAIL.fullmatch(line) is not None


def read_index(file: BinaryIO, size: int) -> Index | None:
    """The index of an open, uncompressed file of this size; None if it has no complete one."""
    file.seek(max(size - 40, 0))
    found = _TAIL.search(file.read(40))
    if found is None or int(found[1]) > size:
        return None
    file.seek(int(found[1]))
    line, newline, _ = file.read(LONGEST).partition(b"\n")
    given = unseal(line.removeprefix(b'"index":')) if newline else None
    if given is None:
        return None
    try:
        return Index(_entries(given, size), given)
    except (UnreadableTraceError, TypeError):
        return None


def _entries(given: Mapping[str, Any], size: int) -> tuple[IndexEntry, ...]:
    tables = given.get("table")
    if not isinstance(tables, list):
        raise UnreadableTraceError("its index lacks tables or offsets")
    rows = len(tables)  # every column is written cell by cell
    kinds = {name: str if name == "table" else int for name in IndexEntry._fields}
    columns = [
        column_text.DECODERS[kind](given.get(name), rows).tolist()
        for name, kind in kinds.items()
        if name in given or name not in ADDED
    ]
    if any(len(column) != rows for column in columns):
        raise UnreadableTraceError("its index has columns of different lengths")
    entries = tuple(IndexEntry(*cells) for cells in zip(*columns, strict=True))
    end = 0
    for place in entries:  # a line that is listed twice would be read twice
        within = end <= place.offset <= place.offset + place.length <= size
        if not within or place.length > LONGEST:
            raise UnreadableTraceError("its index points outside the file's lines, or repeats one")
        end = place.offset + place.length
    return entries
