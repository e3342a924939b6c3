"""Follows a trace file that is being written: reads only what was added since the last look."""

from __future__ import annotations

import os
import zlib
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from gradscope.errors import MissingProgramError, UnreadableTraceError
from gradscope.trace.file.compression import FREE, GZIP, RATIO, is_skipped, is_zstd, zstandard
from gradscope.trace.file.file_lines import LONGEST, may_begin, read_block, read_header, unseal
from gradscope.trace.text import quoted_path

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from gradscope.trace.table import Block

BEFORE: Final = 64
"""Number of bytes before the place that was reached, which must not have changed."""
PIECE: Final = 1 << 14
"""Bytes that are decompressed at once: they may stand for a thousand times as many."""
TOO_MANY: Final = f"it decompresses to more than {RATIO} times as many bytes: it is not a trace"


class GrowingTrace:
    """The blocks of a trace file, window by window, as they are written.

    `look` returns what was added. A file that was replaced, or whose end was written again (by the
    ring of `--keep`), is read from its beginning, and `again` is then true: what was returned
    before no longer counts. Only whole windows are returned.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size = 0  # of the file, at the last look
        self.windows = 0
        self.has_ended = False  # the recording was closed
        self.again = False
        self.written = 0.0  # when the file was last changed, in seconds since the epoch
        self._forget()
        self._file_id: tuple[int, int] | None = None

    def _forget(self) -> None:
        self._place, self._before, self._text, self.windows = 0, b"", 0, 0
        self.has_ended = False

    def look(self) -> Iterator[list[Block]]:
        """The blocks of each window that was added since the last look."""
        self.again = False
        try:
            with self.path.open("rb") as file:
                status = os.fstat(file.fileno())
                self.size, self.written = status.st_size, status.st_mtime
                if not self._is_the_same(file, (status.st_dev, status.st_ino)):
                    self.again = self._place > 0
                    self._forget()
                yield from self._windows(file)
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise UnreadableTraceError(f"cannot open {quoted_path(self.path)}: {reason}") from None
        except UnreadableTraceError as error:
            raise type(error)(f"cannot read {quoted_path(self.path)}: {error}") from None

    def _is_the_same(self, file: BinaryIO, identity: tuple[int, int]) -> bool:
        known, self._file_id = self._file_id, identity
        if known != identity or self.size < self._place:
            return False
        file.seek(self._place - len(self._before))
        return file.read(len(self._before)) == self._before

    def _windows(self, file: BinaryIO) -> Iterator[list[Block]]:
        """Each whole window from the place that was reached on.

        The place moves only past whole windows: the end line and the index may be replaced by more
        rows, if a process that was about to end did not.
        """
        blocks: list[Block] = []
        self.has_ended = False
        for line, place in self._lines(file):
            if len(line) > LONGEST:
                raise UnreadableTraceError("a line is too long, so it is not a trace")
            if self._place == 0 and not may_begin(line):
                read_header(line)  # raises
            if not line.endswith(b"\n"):
                return  # it is being written
            if self._place == 0:
                read_header(line)
                self._reach(file, place)
                continue
            fields = unseal(line)
            if fields is None:
                return  # it is part of the index, or its rest will follow
            if "table" in fields:
                blocks.append(read_block(fields, len(line)))
            elif "window" in fields:
                self.windows += 1
                yield blocks
                blocks = []
                self._reach(file, place)
            elif fields.get("end") is True:
                self.has_ended = True
                return

    def _reach(self, file: BinaryIO, place: int) -> None:
        at = file.tell()
        self._place = place
        start = max(place - BEFORE, 0)
        file.seek(start)
        self._before = file.read(place - start)
        file.seek(at)

    def _lines(self, file: BinaryIO) -> Iterator[tuple[bytes, int]]:
        """Each line from the place that was reached on, and the place in the file after it."""
        file.seek(0)
        magic = file.read(4)
        file.seek(self._place)
        if len(magic) < 4:
            return  # it is not known yet what it is
        if magic.startswith(GZIP):
            yield from self._packed(file, lambda: zlib.decompressobj(31))
        elif is_zstd(magic):
            decompressor = zstandard().ZstdDecompressor(max_window_size=1 << 27)
            yield from self._packed(file, decompressor.decompressobj)
        else:
            place = self._place
            while line := file.readline(LONGEST + 1):
                place += len(line)
                yield line, place

    def _packed(self, file: BinaryIO, unpacker: Any) -> Iterator[tuple[bytes, int]]:
        """The lines of each whole compressed window: each is compressed separately."""
        for text, place in self._pieces(file, unpacker):
            self._text += len(text)
            if self._text > RATIO * self.size + FREE:
                raise UnreadableTraceError(TOO_MANY)
            for line in text.splitlines(keepends=True):
                yield line, place

    def _pieces(self, file: BinaryIO, unpacker: Any) -> Iterator[tuple[bytes, int]]:
        place, packed = self._place, b""
        while packed := packed or file.read(PIECE):
            if is_skipped(packed):
                packed += file.read(max(8 - len(packed), 0))
                length = 8 + int.from_bytes(packed[4:8], "little")
                place += length
                file.seek(place)
                packed = b""
                continue
            member, text = unpacker(), bytearray()
            try:
                while not member.eof and packed:
                    text += member.decompress(packed)
                    if len(text) > RATIO * self.size + FREE:
                        raise UnreadableTraceError(TOO_MANY)
                    place += len(packed)
                    packed = b"" if member.eof else file.read(PIECE)
            except _errors() as error:
                raise UnreadableTraceError(f"its compressed data is damaged: {error}") from None
            if not member.eof:
                return  # it is being written
            packed = member.unused_data or packed
            place -= len(packed)
            yield bytes(text), place


def _errors() -> tuple[type[Exception], ...]:
    """What damaged compressed data raises."""
    try:
        return zlib.error, zstandard().ZstdError
    except MissingProgramError:  # then no file needs it
        return (zlib.error,)
