"""Writes rows to a file, window by window, so that they are readable if the program crashes."""

from __future__ import annotations

import atexit
import os
from collections import Counter, deque
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Condition, RLock, Thread
from typing import TYPE_CHECKING, Final

import numpy as np
import orjson

from gradscope.errors import LateBlockError, RecordingError
from gradscope.trace.file.background_write import Pen
from gradscope.trace.file.compression import packer
from gradscope.trace.file.file_lines import block_lines, completed, header, window_line
from gradscope.trace.file.index import IndexEntry, closing, entry
from gradscope.trace.file.intern import TextWriter
from gradscope.trace.file.opening import opened
from gradscope.trace.file.prepare import Values, prepared
from gradscope.trace.ragged import Data, Ragged
from gradscope.trace.schema import ALWAYS_WRITTEN, MINOR, VERSION
from gradscope.trace.schema.tables import Meta
from gradscope.trace.table import Block
from gradscope.trace.text import quoted_path

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from os import PathLike

    from gradscope.trace.schema.declare import Row

QUEUED: Final = 1 << 26
"""Bytes of rows that may wait to be written before a producer has to wait."""


@dataclass(slots=True)
class FileWindow:
    """The blocks between two commits."""

    number: int
    start: int = 0  # bytes of rows in all windows before it
    blocks: list[Block] = field(default_factory=list)
    strings: int = 0  # number of texts interned when it was committed


@dataclass(frozen=True, slots=True)
class WriteProgress:
    """How much of the file is written. Replaced as a whole: see Note [Interrupted anywhere]."""

    size: int = 0  # of the file
    text: int = 0  # of its text, before compression
    windows: int = 0
    lines: int = 0
    strings: int = 1  # texts with a smaller id are in the file
    extra: frozenset[int] = frozenset()  # and these with a larger one
    dropped: Mapping[str, int] | None = None  # rows left out since the budget was reached, by table
    until: int = 0  # size at which also tables that are always written end


RESERVE, LEAST = 8, 4_000
"""Part of the limit, and number of bytes at least, for summaries of steps after it is reached."""


class FileWriter(TextWriter):
    """Appends rows to a trace file; a full disk ends the recording, not the program.

    `max_bytes`: a window that would make the file larger is left out, with all later ones, and
    counted in `meta.dropped`; of later windows only `meta` is written, and ALWAYS_WRITTEN tables up
    to one part in RESERVE more. `background`: encode,
    compress and write in a separate thread; None: only if the file is compressed, which is when it
    was measured to be faster.

    A process forked from the one that opened the file writes nothing. `path` is the path of the
    trace: next to the requested file, if another process is still writing that one.
    """

    def __init__(
        self,
        path: str | PathLike[str],
        max_bytes: int | None = None,
        *,
        background: bool | None = None,
        queued: int = QUEUED,
    ) -> None:
        self.path = Path(path)
        self._pack = packer(self.path)
        self._max_bytes = max_bytes
        self._queued = queued
        super().__init__()
        self._windows = deque(
            [FileWindow(1)]
        )  # the last one is open; those before wait to be written
        self._entries: list[IndexEntry] = []
        self._written = self._before = self._unsealed = WriteProgress()
        self._failure: OSError | None = None
        self._producer_dropped: Mapping[str, int] = {}
        self._ending = self._closed = self._stopping = False
        self._filling: Final = RLock()
        self._writing: Final = RLock()
        self._changed: Final = Condition()
        try:
            file, self.path = opened(self.path)
            self._pen = Pen(file, self.path.absolute())
            first = header((VERSION, MINOR))
            self._append(first, self._pack(first), self._written)
            self._has_failed()
            if self._failure is not None:
                raise self._failure
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise RecordingError(f"cannot write {quoted_path(self.path)}: {reason}") from None
        self._thread: Thread | None = None
        if background or (background is None and self.path.suffix in {".gz", ".zst"}):
            self._thread = Thread(target=self._work, name="gradscope writer", daemon=True)
            self._thread.start()
        atexit.register(self.close)

    @property
    def is_full(self) -> bool:
        """Whether the budget is used up: rows that follow are not written, only counted."""
        return self._written.dropped is not None

    # Called by producers ----------------------------------------------------------------------

    def block(self, row: type[Row], columns: Mapping[str, Values], amend: bool = False) -> None:  # noqa: FBT001, FBT002
        block = prepared(row, columns, amend=amend, texts=len(self._texts))
        if block is None or self._process != os.getpid():
            return
        with self._filling:
            if self._ending:
                raise LateBlockError(f"{quoted_path(self.path)} is closed", row)
            self._windows[-1].blocks.append(block)

    def commit(self) -> None:
        if self._idle():
            return
        with self._filling:
            window = self._windows[-1]
            if window.blocks:
                window.strings = len(self._texts)
                end = window.start + sum(map(_bytes, window.blocks))
                self._windows.append(FileWindow(window.number + 1, end))
        if self._thread is None:
            self._drain()
        else:
            with self._changed:
                self._changed.notify_all()
                self._changed.wait_for(self._has_room)

    def settle(self) -> None:
        """Wait until what was committed is in the file."""
        if not self._idle():
            self._drain()
            self._has_failed()

    def seal(self, more: Callable[[], None] | None = None) -> None:
        """Close the file as it is, in case the process ends here; then `unseal`.

        `more` writes rows that are in the file only until then.
        """
        self.commit()
        self.settle()
        self._writing.acquire()
        self._drain()
        self._unsealed = self._written
        if more is not None:
            more()
            self.commit()
            self._drain()
        if not self._has_failed():
            self._finish()
            if not self._has_failed():  # a signal handler may have interrupted a longer write
                self._pen.cut(self._written.size)

    def unseal(self) -> None:
        """Called if the process did not end: further rows replace the end of the file."""
        if not self._has_failed():
            self._written = self._unsealed
            self._windows[-1].number = self._written.windows + 1
            self._pen.cut(self._written.size)
        self._writing.release()

    def close(self) -> None:
        if self._idle():
            return
        with self._filling:
            self._ending = True  # first: nothing is written after what is written now
        self.commit()
        if self._thread is not None:
            with self._changed:
                self._stopping = True
                self._changed.notify_all()
            self._thread.join()
        self._drain()
        if not self._has_failed():
            self._finish()
        self._has_failed()
        self._closed = True
        self._pen.close()
        atexit.unregister(self.close)
        if self._failure is not None:
            raise RecordingError(
                f"cannot write {quoted_path(self.path)}: {self._failure.strerror}; "
                f"the trace is complete up to window {self._written.windows}"
            )

    def _idle(self) -> bool:
        return self._closed or self._process != os.getpid()

    def _has_room(self) -> bool:
        waiting = self._windows[-1].start - self._windows[0].start
        alive = self._thread is not None and self._thread.is_alive()
        return waiting <= self._queued or not alive

    # Writing ----------------------------------------------------------------------------------

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._stopping or len(self._windows) > 1)
            if len(self._windows) == 1:
                return
            self._drain()

    def _drain(self) -> None:
        """Write all committed windows."""
        with self._writing:
            while len(self._windows) > 1:
                window = self._windows[0]
                if window.number > self._written.windows and self._failure is None:
                    self._write(window)
                if self._windows[0] is window:  # else the commit of a signal handler removed it
                    self._windows.popleft()
                with self._changed:
                    self._changed.notify_all()

    def _write(self, window: FileWindow) -> None:
        self._listen(window)
        if self._written.dropped is None:
            new = self._texts.block(range(self._written.strings, window.strings))
            then = replace(self._written, windows=window.number, strings=window.strings)
            if self._put([*new, *window.blocks], then):
                return
        self._drop(window)

    def _drop(self, window: FileWindow) -> None:
        """Write the facts about the run and summaries of steps, and count the other rows."""
        before, dropped = self._written, Counter(self._written.dropped)
        until = before.until
        if before.dropped is None and self._max_bytes is not None:
            until = before.size + max(self._max_bytes // RESERVE, LEAST)
        goes_on = ALWAYS_WRITTEN if before.size < until else frozenset()
        kept = [block for block in window.blocks if block.table in {Meta.TABLE, *goes_on}]
        for block in window.blocks:
            if block.table not in {Meta.TABLE, *goes_on} and not block.amend:
                dropped[block.table] += block.rows
        then = replace(before, windows=window.number, dropped=dropped, until=until)
        if before.dropped is None:
            kept.append(self._confession(dropped))
        self._put_meta(kept, then)

    def _finish(self) -> None:
        dropped = self._written.dropped
        if dropped is not None:
            then = replace(self._written, windows=self._written.windows + 1)
            self._put_meta([self._confession(dropped)], then)
        end = {"truncated": False, "horizon": None, "lost": 0}
        text = closing(self._entries[: self._written.lines], end, self._written.text)
        self._append(text, self._pack(text), self._written)

    def _say_why_it_ends(self, failure: OSError) -> None:
        """Write `meta.cut` in the space of what could not be written."""
        texts = [
            self._texts.intern(text) for text in ("cut", orjson.dumps(failure.strerror).decode())
        ]
        new = [id for id in texts if id >= self._written.strings and id not in self._written.extra]
        row = dict(zip(("key", "value"), ([id] for id in texts), strict=True))
        said = prepared(Meta, row, amend=False, texts=len(self._texts))
        blocks = [*self._texts.block(new), *([said] if said else [])]
        lines = [line for _, line in block_lines(map(completed, blocks))]
        text = b"".join([*lines, window_line(self._written.windows + 1, len(lines))])
        self._pen.write_last(self._written.size, self._pack(text))

    def _confession(self, dropped: Mapping[str, int]) -> Block:
        """`meta.dropped`: rows left out by the producer, and because of the budget."""
        total = Counter(self._producer_dropped) + Counter(dropped)
        value = orjson.dumps(dict(total), option=orjson.OPT_SORT_KEYS).decode()
        row = {"key": self.intern("dropped"), "value": self.intern(value)}
        return Block(Meta.TABLE, 1, {name: np.array([id]) for name, id in row.items()})

    def _put_meta(self, blocks: Sequence[Block], then: WriteProgress) -> None:
        if not blocks:
            self._written = then
            return
        meta = [block for block in blocks if block.table == Meta.TABLE]
        named = {id for block in meta for data in block.data.values() for id in _ids(data)}
        new = sorted(id for id in named - then.extra if id >= then.strings)
        then = replace(then, extra=then.extra | set(new))
        self._put([*self._texts.block(new), *blocks], then, free=True)

    def _put(self, blocks: Sequence[Block], then: WriteProgress, *, free: bool = False) -> bool:
        """Append a window; False if the budget is used up. `free`: ignore the budget."""
        entries, lines = [], []
        offset = then.text
        for block, line in block_lines(map(completed, blocks)):
            lines.append(line)
            entries.append(entry(block, offset, len(line), then.windows))
            offset += len(line)
        text = b"".join([*lines, window_line(then.windows, len(lines))])
        packed = self._pack(text)
        if not free and self._max_bytes is not None and then.size + len(packed) > self._max_bytes:
            return False
        self._entries[then.lines :] = entries
        self._append(text, packed, replace(then, lines=then.lines + len(entries)))
        return True

    def _listen(self, window: FileWindow) -> None:
        """Store the number of rows that the producer itself has left out."""
        meta = [completed(block) for block in window.blocks if block.table == Meta.TABLE]
        for block in meta:
            for key, value in zip(
                *(_ids(block.data[name]) for name in ("key", "value")), strict=True
            ):
                if self._texts[key] == "dropped":
                    with suppress(orjson.JSONDecodeError):
                        said = orjson.loads(self._texts[value])
                        self._producer_dropped = said if isinstance(said, dict) else {}

    def _append(self, text: bytes, packed: bytes, then: WriteProgress) -> None:
        """Write after what is written. Doing it twice has the same result as once."""
        if self._has_failed():
            return
        self._before = self._written
        self._pen.write(then.size, packed)
        if self._written.windows <= then.windows:  # else the commit of a signal handler wrote more
            size = then.size + len(packed)
            self._written = replace(then, size=size, text=then.text + len(text))

    def _has_failed(self) -> bool:
        """Whether the last piece, or one before it, could not be written."""
        self._pen.wait()
        if self._failure is None and self._pen.failure is not None:
            self._failure, self._written = self._pen.failure, self._before
            if self._written.size:
                self._say_why_it_ends(self._failure)
        return self._failure is not None


def _ids(data: Data) -> list[int]:
    return [] if isinstance(data, Ragged) else data.tolist()


def _bytes(block: Block) -> int:
    return sum(
        data.offsets.nbytes + data.values.nbytes if isinstance(data, Ragged) else data.nbytes
        for data in block.data.values()
    )
