"""Loads a trace file, complete or truncated, and saves a Trace to a file."""

from __future__ import annotations

import stat
import time
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import numpy as np

from gradscope.errors import RecordingError, UnreadableTraceError
from gradscope.trace.assemble import assemble, taken_from
from gradscope.trace.file.compression import packer, unpacked
from gradscope.trace.file.file_lines import (
    ACCEPTED,
    FIRST,
    block_lines,
    header,
    may_begin,
    window_line,
)
from gradscope.trace.file.index import IndexEntry, closing, entry, read_index
from gradscope.trace.file.latest.let_go import lets_go, without_missing
from gradscope.trace.file.opening import is_being_written, private
from gradscope.trace.file.progress import tell
from gradscope.trace.file.reading import of_step
from gradscope.trace.file.scan import CommonBlocks, Scan, needed_for
from gradscope.trace.ragged import take
from gradscope.trace.schema.declare import NONE, Row
from gradscope.trace.shorthand import SHORT
from gradscope.trace.table import Block
from gradscope.trace.text import quoted_path
from gradscope.trace.trace import Trace

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping
    from os import PathLike

    from gradscope.trace.table import Table

ROWS: Final = 1 << 16
"""Number of rows of a table that `save` puts in a block."""


def load(
    path: str | PathLike[str],
    tables: Collection[type[Row]] | None = None,
    *,
    common: CommonBlocks | None = None,
    step: int | None = None,
) -> Trace:
    """The trace in a file, or some of its tables; its `notes` say what is missing.

    `common`: given to each `load` of files that are alike, so that equal blocks are decoded once.
    `step`: the number of a step; of a large file, only what a view of it needs is read.

    Raises UnreadableTraceError if the file is not a trace or is damaged, and FutureTraceError if
    only a newer gradscope can read it.
    """
    path = Path(path)
    wanted = None if tables is None else needed_for({table.TABLE for table in tables})
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise UnreadableTraceError("it is not a file")  # noqa: TRY301
        with path.open("rb") as file:
            part = None if step is None else _part(file, status.st_size, step)
            trace = part or _trace(_scan(file, status.st_size, wanted, common))
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise UnreadableTraceError(f"cannot open {quoted_path(path)}: {reason}") from None
    except ValueError:  # a path with a NUL in it
        raise UnreadableTraceError(f"cannot open {quoted_path(path)}: invalid name") from None
    except UnreadableTraceError as error:
        raise type(error)(f"cannot read {quoted_path(path)}: {error}") from None
    trace.file_name = path.name
    if trace.truncated and not _is_closed(trace) and is_being_written(path):
        trace.last_written = max(time.time() - status.st_mtime, 0.0)
    return trace


def _is_closed(trace: Trace) -> bool:
    """Whether a truncated trace says why it ends: nothing more will be written to it."""
    return "cut" in trace.meta


def is_trace(path: str | PathLike[str]) -> bool:
    """Whether a file is a trace according to its first bytes, or is empty."""
    path = Path(path)
    with path.open("rb") as file:
        beginning = next(unpacked(file, path.stat().st_size), b"")
    return may_begin(beginning)


def decode(text: bytes) -> Trace:
    """The trace in the bytes of a file."""
    return _trace(_scan(BytesIO(text), len(text), None))


def _scan(
    file: BinaryIO, size: int, wanted: Collection[str] | None, common: CommonBlocks | None = None
) -> Scan:
    scan = Scan(wanted, common)
    index = None if wanted is None else read_index(file, size)
    file.seek(0)
    if index is None or wanted is None:
        scan.read(_told(unpacked(file, size), file, size))
    else:
        scan.read_line(1, file.readline(FIRST))
        for number, place in enumerate(index.entries, 2):
            if place.table in wanted:
                file.seek(place.offset)
                scan.read_line(number, file.read(place.length))
                if scan.lost:
                    raise UnreadableTraceError("its index does not fit its lines; record it again")
        scan.skipped = len(index.entries) - len(scan.blocks)
        scan.text, scan.ended, scan.indexed, scan.end = size, True, True, dict(index.end)
    return scan


def _part(file: BinaryIO, size: int, step: int) -> Trace | None:
    """The part of a file that views of this step need; None: read the whole file."""
    index = read_index(file, size) if size >= of_step.WORTH_IT else None
    if index is None:
        return None
    scan = Scan()
    file.seek(0)
    nodes = of_step.read_step(file, index, step, scan)
    if nodes is None:
        return None
    scan.text, scan.ended, scan.indexed, scan.end = size, True, True, dict(index.end)
    trace = _trace(scan, is_part=True)
    trace.all_nodes = nodes
    return trace


def _told(pieces: Iterable[bytes], file: BinaryIO, size: int) -> Iterator[bytes]:
    """The pieces; reports how much of the file has been read."""
    for piece in pieces:
        tell("reading the trace", min(file.tell(), size), size)
        yield piece
    tell("putting the trace together")


def _trace(scan: Scan, *, is_part: bool = False) -> Trace:
    in_short = any(block.table in SHORT for block in scan.blocks)
    try:
        blocks = taken_from(scan.blocks) if scan.ended else scan.blocks
        made = assemble(blocks, ACCEPTED * scan.text, scan.common)
    except UnreadableTraceError:
        if scan.ended:
            raise
        # Short rows of a window that was cut may need rows that would have followed.
        cut = [block for block in scan.blocks[scan.whole :] if block.table not in SHORT]
        made = assemble([*scan.blocks[: scan.whole], *cut], ACCEPTED * scan.text)
    remarks = list(made.notes)
    if scan.ended and not scan.indexed:
        remarks.append("truncated: only the index at the end of the file is cut; no row is missing")
    if scan.skipped:
        remarks.append(f"read in part: {scan.skipped} blocks of other tables were left out")
    truncated = not scan.ended or scan.end.get("truncated") is True
    horizon = scan.end.get("horizon") if scan.ended else scan.horizon
    tables: Mapping[str, Table[Row]] = made.tables
    if is_part or lets_go(tables["meta"]):
        tables = without_missing(tables)
        remarks = [each for each in remarks if each not in made.notes]  # about rows that are gone
    trace = Trace(
        tables,
        version=scan.version,
        truncated=truncated,
        horizon=horizon if truncated and type(horizon) is int else None,
        lost=_count(scan.end.get("lost")) if scan.ended else scan.lost,
        remarks=tuple(remarks),
    )
    if not scan.ended and in_short:
        trace.horizon = _numbered_horizon(trace, scan.until)
    _ = trace.meta  # raises if a value has the wrong type
    return trace


def _numbered_horizon(trace: Trace, until: int) -> int:
    """The last event up to this time: events in shorthand are numbered only when expanded."""
    later = np.flatnonzero(trace.event_column("t") > until)
    before = int(later[0]) if len(later) else trace.event_count
    return int(trace.order().seq[before - 1]) if before else NONE


def _count(value: Any) -> int:
    return value if type(value) is int and value >= 0 else 0


def encode(trace: Trace) -> bytes:
    """A trace as the text of a file; equal traces give the same bytes."""
    return b"".join(_windows(trace))


def save(trace: Trace, path: str | PathLike[str]) -> None:
    """Write a trace to a file; a name that ends in .gz or .zst compresses it."""
    path = Path(path)
    pack = packer(path)
    try:
        with open(path, "wb", opener=private) as file:
            file.write(b"".join(map(pack, _windows(trace))))
    except OSError as error:
        raise RecordingError(f"cannot write {quoted_path(path)}: {error.strerror}") from None


def _windows(trace: Trace) -> Iterator[bytes]:
    """The text, in the pieces that are compressed separately."""
    text = header(trace.version)
    offset = 0
    entries: list[IndexEntry] = []
    for block, line in block_lines(_blocks(trace)):
        entries.append(entry(block, offset + len(text), len(line), 1))
        text += line
        if len(text) > 1 << 20:
            yield text
            offset += len(text)
            text = b""
    text += window_line(1, len(entries))
    end = {"truncated": trace.truncated, "horizon": trace.horizon, "lost": trace.lost}
    yield text + closing(entries, end, offset + len(text))


def _blocks(trace: Trace) -> Iterable[Block]:
    for name, table in trace.tables.items():
        for start in range(0, len(table), ROWS):
            rows = np.arange(start, min(start + ROWS, len(table)))
            yield Block(
                name, len(rows), {key: take(data, rows) for key, data in table.data.items()}
            )
