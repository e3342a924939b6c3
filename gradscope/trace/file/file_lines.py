"""The lines of a trace file. Each is a part of one JSON document and has a checksum.

    {"format":"gradscope-trace","version":[1,0],"blocks":[
    {"table":"node","rows":2,"id":{"first":1,"by":1},"name":7,...,"crc32":3141592653},
    {"window":1,"blocks":1,"crc32":...},
    {"end":true,...,"crc32":...}
    ],
    "index":{"table":["node"],"offset":[62],...,"crc32":...},
    "index_at":12345}

A block line holds rows of one table or, with `"amend":true`, new values of columns of earlier rows,
which it names by id. A window line marks everything that was committed together as complete. The
end line marks the recording as closed; after it follows only the index, which says which lines hold
which table, time, step and ids. `crc32` is the checksum of the line up to `,"crc32":`.

Lines are appended window by window, so a file that was cut anywhere opens up to its last whole
line, with a note. A whole line that does not match its checksum is an error. `.json.gz` and
`.json.zst` hold the same text, with each window compressed separately.

A reader refuses a higher major version. A higher minor version only adds: tables, event kinds and
columns that a reader does not know are kept, and written again, but not shown.

No file can make its reader use more memory than its size justifies: a line may stand for at most 4
cells per byte (Note [Bounded expansion]), and a compressed file for at most 64 bytes of text per
byte, plus 16 MiB (Note [Decompression bombs]). No line is longer than 64 MiB: a longer block is
written as several.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

import numpy as np
import orjson

from gradscope.errors import FutureTraceError, UnreadableTraceError
from gradscope.trace.assemble import default
from gradscope.trace.file import column_text
from gradscope.trace.ragged import Ragged
from gradscope.trace.schema import VERSION
from gradscope.trace.schema.declare import TABLES, columns
from gradscope.trace.table import Block
from gradscope.trace.text import quoted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

# Note [Bounded expansion]
# One short line may stand for many cells: `"rows": 1000000000000, "task": 1`. So that no file can
# request more memory than its size justifies, a line may stand for at most ACCEPTED cells (of eight
# bytes) per byte. The writer stays below WRITTEN, half of that, which leaves room for columns that
# are added later: if a block would be too short, it writes columns cell by cell until it is not.
# Including parsing, opening a trace takes at most MEMORY bytes per byte of its text, whatever its
# contents; for shorthand (see Note [Shorthand]), SHORT_MEMORY.
WRITTEN: Final = 2
ACCEPTED: Final = 4
MEMORY: Final = 128
SHORT_MEMORY: Final = 512

LONGEST: Final = 1 << 26
"""Largest number of bytes of a line. A longer line is not read to its end."""
FIRST: Final = 200
"""Largest number of bytes of the first line."""

FORMAT: Final = "gradscope-trace"
RESERVED: Final = ("table", "rows", "amend", "crc32")
"""Keys of a block line that are not columns. `end` is a column of several tables."""

_OPTIONS: Final = orjson.OPT_SERIALIZE_NUMPY
_SEAL: Final = re.compile(rb',"crc32":(\d{1,10})}$')


def header(version: tuple[int, int]) -> bytes:
    """The first line."""
    return b'{"format":"%s","version":[%d,%d],"blocks":[\n' % (FORMAT.encode(), *version)


def may_begin(text: bytes) -> bool:
    """Whether a trace may begin with this text, which may be shorter than its first line."""
    start = header((0, 0)).partition(b"[")[0]
    return text[: len(start)] == start[: len(text)]


def read_header(line: bytes) -> tuple[int, int]:
    """The version the first line declares."""
    try:
        fields = orjson.loads(line.removesuffix(b"\n") + b"]}")
    except orjson.JSONDecodeError:
        fields = None
    if not isinstance(fields, dict) or fields.get("format") != FORMAT or "blocks" not in fields:
        if line.lstrip().startswith(b"<"):
            raise UnreadableTraceError("it is a page or a picture; name the trace it was made from")
        raise UnreadableTraceError(
            "it is not a gradscope trace, or is cut off within its first line; name a file that "
            "`gradscope trace` wrote"
        )
    match fields.get("version"):
        case [int(major), int(minor)] if major >= 0 <= minor:
            pass
        case stranger:
            raise UnreadableTraceError(f"its version is {quoted(stranger)}, expected two numbers")
    if major > VERSION:
        raise FutureTraceError(
            f"it has version {major}.{minor}, and this gradscope reads versions up to {VERSION}: "
            "install a newer gradscope"
        )
    return major, minor


def seal(fields: Mapping[str, Any]) -> bytes:
    """An object as JSON, its checksum last."""
    body = orjson.dumps(fields, option=_OPTIONS)[:-1]
    return b'%s,"crc32":%d}' % (body, crc32(body))


def unseal(line: bytes) -> dict[str, Any] | None:
    """The object on a line; None if it does not match its checksum."""
    line = line.rstrip(b"\n").removesuffix(b",")
    found = _SEAL.search(line, max(len(line) - 24, 0))
    if found is None or crc32(line[: found.start()]) != int(found[1]):
        return None
    try:
        fields = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    return fields if isinstance(fields, dict) else None


def cells(block: Block) -> int:
    """Number of cells of a block after reading."""
    names = set(block.data)
    if block.table in TABLES and not block.amend:
        names |= {column.name for column in columns(TABLES[block.table])}
    lists = [len(data.values) for data in block.data.values() if isinstance(data, Ragged)]
    return block.rows * len(names) + sum(lists)


def block_lines(blocks: Iterable[Block]) -> Iterator[tuple[Block, bytes]]:
    """The lines of these blocks, each with the block it holds: see LONGEST."""
    for block in blocks:
        line = block_line(block) + b",\n"
        if len(line) <= LONGEST or block.rows == 1:
            yield block, line
        else:
            yield from block_lines(_halves(block))


def _halves(block: Block) -> Iterator[Block]:
    for rows in np.array_split(np.arange(block.rows), 2):
        yield block.take(rows)


def block_line(block: Block) -> bytes:
    """A block as JSON. See Note [Bounded expansion]."""
    made = cells(block)
    for explicit in range(len(block.data) + 1):
        line = seal(_block_fields(block, explicit))
        if made <= WRITTEN * len(line):
            return line
    raise AssertionError(f"a block of {block.table} cannot be written out")


def _block_fields(block: Block, explicit: int) -> dict[str, Any]:
    fields: dict[str, Any] = {"table": block.table, "rows": block.rows}
    if block.amend:
        fields["amend"] = True
    for number, (name, data) in enumerate(block.data.items()):
        fields[name] = column_text.encode(data, explicit=number < explicit)
    return fields


def read_block(fields: dict[str, Any], length: int) -> Block:
    """The block on a line of this many bytes."""
    table, rows = fields.get("table"), fields.get("rows")
    if not isinstance(table, str) or type(rows) is not int or rows < 1:
        raise UnreadableTraceError("it is not a block of a table")
    amend = fields.get("amend") is True
    known = {column.name: column for column in columns(TABLES[table])} if table in TABLES else {}
    given = {name: coded for name, coded in fields.items() if name not in RESERVED}
    width = len(given) if amend else len(known.keys() | given.keys())
    allowed = ACCEPTED * length
    if not given or rows * width > allowed:
        raise UnreadableTraceError(f"a line of {length} bytes cannot hold {rows} rows")
    data = {}
    left = allowed - rows * width
    for name, coded in given.items():
        try:
            data[name] = column = column_text.decode(coded, rows, known.get(name), left)
        except UnreadableTraceError as error:
            raise UnreadableTraceError(
                f"column {quoted(name)} of table {quoted(table)}: {error}"
            ) from None
        left -= len(column.values) if isinstance(column, Ragged) else 0
    return Block(table, rows, data, amend)


def window_line(number: int, blocks: int) -> bytes:
    """The line that marks a window of this many blocks as complete."""
    return seal({"window": number, "blocks": blocks}) + b",\n"


def completed(block: Block) -> Block:
    """A block with defaults for missing columns; an amendment has only those it changes."""
    if block.amend or block.table not in TABLES:
        return block
    data = dict(block.data)
    for column in columns(TABLES[block.table]):
        if column.name not in data:
            data[column.name] = default(column, block.rows)
    return Block(block.table, block.rows, data)
