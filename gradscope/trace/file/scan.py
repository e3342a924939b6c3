"""A trace file line by line: its blocks, and how far it can be trusted."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np

from gradscope.errors import UnreadableTraceError
from gradscope.trace.file.file_lines import FIRST, LONGEST, read_block, read_header, unseal
from gradscope.trace.file.index import is_tail
from gradscope.trace.ragged import Data, Ragged, frozen
from gradscope.trace.schema.declare import NONE
from gradscope.trace.shorthand import SHORT
from gradscope.trace.table import Block, FrozenColumns

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    Join: TypeAlias = Callable[[str, Sequence[Block]], dict[str, Data]]

ROOM: Final = 1 << 25
"""Number of bytes of lines that `CommonBlocks` keeps: later ones are decoded again."""


class ReadBlock(NamedTuple):
    """A block, and the last event and the last time in it; NONE: it has none."""

    block: Block
    event: int
    time: int


class CommonBlocks:
    """The blocks of the files that were read so far, by the bytes of their lines."""

    def __init__(self) -> None:
        self._blocks: dict[bytes, ReadBlock] = {}
        self._joined: dict[tuple[str, tuple[int, ...]], FrozenColumns] = {}
        self._left = ROOM

    def get(self, line: bytes) -> ReadBlock | None:
        return self._blocks.get(line)

    def kept(self, line: bytes, read: ReadBlock) -> ReadBlock:
        """The block, from now on in common: its columns cannot be written."""
        if len(line) > self._left:
            return read
        self._left -= len(line)
        block = read.block
        data = {name: frozen(cells) for name, cells in block.data.items()}
        made = Block(block.table, block.rows, data, block.amend, len(self._blocks))
        self._blocks[line] = read._replace(block=made)
        return self._blocks[line]

    def joined(self, table: str, blocks: Sequence[Block], join: Join) -> dict[str, Data]:
        """The columns of these blocks of a table; blocks in common are joined once."""
        numbers = tuple(block.common for block in blocks)
        if NONE in numbers:
            return join(table, blocks)
        if (table, numbers) not in self._joined:
            data = {name: frozen(cells) for name, cells in join(table, blocks).items()}
            self._joined[table, numbers] = FrozenColumns(data)
        return self._joined[table, numbers]


BY_ITSELF = frozenset({"meta", "string", "finding"})
"""Tables whose rows do not depend on other tables."""


def needed_for(tables: Collection[str]) -> Collection[str]:
    """These tables and those read with them: short tables may contain rows of any table."""
    with_them = {"string", "meta"}
    if not BY_ITSELF.issuperset(tables):
        with_them |= {"graph_task", "tensor", *SHORT}
    return with_them.union(tables)


@dataclass(slots=True)
class Scan:
    """What is known from the lines of a file read so far."""

    tables: Collection[str] | None = None  # read only these; None: all
    common: CommonBlocks | None = None  # of this file and others
    version: tuple[int, int] = (0, 0)
    blocks: list[Block] = field(default_factory=list)
    text: int = 0  # bytes, of all lines
    lost: int = 0  # bytes after the last whole line
    ended: bool = False  # the recording was closed
    indexed: bool = False  # and the file is complete to its last byte
    end: dict[str, Any] = field(default_factory=dict)
    horizon: int = NONE  # the last event of the last whole window
    until: int = NONE  # the last time in it, if events are not numbered yet (shorthand)
    skipped: int = 0  # blocks of tables that were not requested
    whole: int = 0  # number of blocks in complete windows
    _latest: int = NONE
    _time: int = NONE
    _in_window: int = 0

    def read(self, pieces: Iterable[bytes]) -> None:
        """Process the whole text of a file."""
        for number, line in enumerate(lines_of(pieces), 1):
            self.read_line(number, line)
            if self.lost:
                return
        if not self.text:
            raise UnreadableTraceError("it is empty; name a file that `gradscope trace` wrote")

    def read_line(self, number: int, line: bytes) -> None:
        """Process one line; the first one is the header."""
        self.text += len(line)
        try:
            self._line(number, line)
        except UnreadableTraceError as error:
            raise type(error)(f"line {number}: {error}") from None

    def _line(self, number: int, line: bytes) -> None:
        if number == 1:
            self.version = read_header(line)
            return
        if len(line) > LONGEST:
            raise UnreadableTraceError(
                f"it is longer than {LONGEST >> 20} MiB, so it is not a line of a trace; copy the "
                "file again from an intact copy, or record it again"
            )
        if self.ended:
            self.indexed = is_tail(line)
            return
        if line.endswith(b"\n") and self._unwanted(line):
            self.skipped += 1
            self._in_window += 1
            return
        known = self.common.get(line) if self.common else None
        fields = None if known else unseal(line)
        if known is not None:
            self._add(known)
        elif fields is not None:
            self._fields(fields, line)
        elif line.endswith(b"\n"):
            raise UnreadableTraceError(
                "it is damaged (it does not match its checksum); copy the file again from an "
                "intact copy, or record it again"
            )
        else:
            self.lost = len(line)

    def _unwanted(self, line: bytes) -> bool:
        if self.tables is None or not line.startswith(b'{"table":"'):
            return False
        name = line[10 : line.find(b'"', 10)].decode("utf-8", "replace")
        return name not in self.tables

    def _add(self, read: ReadBlock) -> None:
        self.blocks.append(read.block)
        self._in_window += 1
        self._latest = max(self._latest, read.event)
        self._time = max(self._time, read.time)

    def _fields(self, fields: dict[str, Any], line: bytes) -> None:
        if "table" in fields:
            block = read_block(fields, len(line))
            read = ReadBlock(block, _last_event(block), _last_time(block))
            self._add(self.common.kept(line, read) if self.common else read)
        elif "window" in fields:
            if fields.get("blocks") != self._in_window:
                raise UnreadableTraceError("blocks are missing from the window it closes")
            self._in_window = 0
            self.whole = len(self.blocks)
            self.horizon, self.until = self._latest, self._time
        elif fields.get("end") is True:
            self.ended = True
            self.end = fields
        else:
            raise UnreadableTraceError("it is neither a block nor the end of a window")


def lines_of(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The lines of a text that arrives in pieces; the last one may lack its newline.

    If a line is too long, its beginning is returned as the last line.
    """
    begun: list[bytes] = []
    length, longest = 0, FIRST
    for piece in pieces:
        *whole, rest = piece.split(b"\n")
        for line in whole:
            begun += line, b"\n"
            yield b"".join(begun)
            begun.clear()
            length, longest = 0, LONGEST
        begun.append(rest)
        length += len(rest)
        if length > longest:
            break
    if last := b"".join(begun):
        yield last


def _last_event(block: Block) -> int:
    return _greatest(block, "seq") if block.table.startswith("event.") else NONE


def _last_time(block: Block) -> int:
    if block.table not in SHORT:
        return NONE
    return max(_greatest(block, name) for name in ("t", "begin", "ended"))


def _greatest(block: Block, name: str) -> int:
    data = block.data.get(name)
    if data is None or isinstance(data, Ragged) or data.dtype.kind != "i":
        return NONE
    return int(np.max(data))
