"""Destinations for the rows of producers: a file, memory, or nowhere."""

from __future__ import annotations

from threading import RLock
from typing import TYPE_CHECKING, Protocol

from gradscope.errors import LateBlockError
from gradscope.trace.assemble import assemble
from gradscope.trace.file.file_writer import FileWriter
from gradscope.trace.file.intern import TextWriter
from gradscope.trace.file.prepare import Values, prepared
from gradscope.trace.table import Block
from gradscope.trace.trace import Trace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from gradscope.trace.schema.declare import Row

__all__ = ["FileWriter", "MemoryWriter", "NullWriter", "Overheard", "Values", "Writer"]


class Writer(Protocol):
    """Receives rows, block by block. Any thread may call it."""

    def intern(self, text: str) -> int:
        """The id of this text, the same for the same text."""
        ...

    def intern_code(self, text: str) -> int:
        """The id of a source text, which is masked differently."""
        ...

    def hide(self, secrets: Iterable[str]) -> None:
        """Mask these secrets in every text that follows."""
        ...

    def block(
        self,
        row: type[Row],
        columns: Mapping[str, Values],
        amend: bool = False,  # noqa: FBT001, FBT002 - the word is at every call
    ) -> None:
        """Rows of one table, column by column; text as ids. Missing columns get their default.

        `amend`: the rows exist already; these are their ids, and new values of their columns.
        """
        ...

    def commit(self) -> None:
        """Mark all blocks since the last commit as complete, so that they can be written."""
        ...

    def close(self) -> None:
        """Commit what is left and finish; a second call does nothing. No block may follow."""
        ...


class NullWriter:
    """Discards all rows, to measure the cost of recording itself."""

    def __init__(self) -> None:
        self._closed = False

    def intern(self, text: str) -> int:  # noqa: ARG002
        return 0

    intern_code = intern

    def hide(self, secrets: Iterable[str]) -> None:
        pass

    def block(self, row: type[Row], columns: Mapping[str, Values], amend: bool = False) -> None:  # noqa: ARG002, FBT001, FBT002
        if self._closed:
            raise LateBlockError("this writer is closed", row)

    def commit(self) -> None:
        pass

    def close(self) -> None:
        self._closed = True


class MemoryWriter(TextWriter):
    """Rows kept in memory, as the trace they make."""

    def __init__(self) -> None:
        super().__init__()
        self._blocks: list[Block] = []
        self._lock = RLock()
        self._sealed = 0
        self._closed = False

    def block(self, row: type[Row], columns: Mapping[str, Values], amend: bool = False) -> None:  # noqa: FBT001, FBT002
        if block := prepared(row, columns, amend=amend, texts=len(self._texts)):
            with self._lock:
                if self._closed:
                    raise LateBlockError("this recording has ended", row)
                self._blocks.append(block)

    def commit(self) -> None:
        pass

    def seal(self, more: Callable[[], None] | None = None) -> None:
        """Write, with `more`, rows that exist only until `unseal`."""
        self._lock.acquire()
        self._sealed = len(self._blocks)
        if more is not None:
            more()

    def unseal(self) -> None:
        """Continue after `seal`."""
        del self._blocks[self._sealed :]
        self._lock.release()

    def close(self) -> None:
        with self._lock:
            self._closed = True

    def trace(self) -> Trace:
        """Everything written so far."""
        strings = self._texts.block(range(1, len(self._texts)))
        made = assemble([*strings, *self._blocks])
        return Trace(made.tables, remarks=tuple(made.notes))


ANY_TEXT = 1 << 62
"""Not needed: the writer itself checks whether texts are interned."""


class Overheard:
    """A writer that also keeps its blocks while there is a listener."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self.intern, self.intern_code, self.hide = writer.intern, writer.intern_code, writer.hide
        self.commit = writer.commit
        self.close = writer.close
        self.heard: list[tuple[type[Row], Block]] | None = None

    def block(self, row: type[Row], columns: Mapping[str, Values], amend: bool = False) -> None:  # noqa: FBT001, FBT002
        """Rows of one table; see `Writer`."""
        self._writer.block(row, columns, amend)
        heard = self.heard
        if heard is not None:
            block = prepared(row, columns, amend=amend, texts=ANY_TEXT)
            if block is not None:
                heard.append((row, block))
