"""A trace file of limited size: the beginning of a run, and its latest steps."""

from __future__ import annotations

import os
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, replace
from io import BytesIO
from threading import Thread
from time import perf_counter_ns
from typing import TYPE_CHECKING, Final

from gradscope.trace.file.compression import unpacked
from gradscope.trace.file.file_lines import window_line
from gradscope.trace.file.file_writer import FileWriter, WriteProgress
from gradscope.trace.file.latest.lasting_rows import lasting

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from os import PathLike

    from gradscope.trace.file.index import IndexEntry
    from gradscope.trace.file.latest.lasting_rows import Line
    from gradscope.trace.file.prepare import Values
    from gradscope.trace.ragged import Array
    from gradscope.trace.schema.declare import Row

    Windows = list[list[Line]]

# Note [Latest steps]
# A long run is recorded whole up to most of the allowed size, or with `--keep` up to its first
# steps. From there on, the file's end is a ring: it consists of segments, which begin at a step.
# Segments that are older than the steps to keep are let go: the newer ones are written again in
# their place. Rows of them that later rows refer to (parameters, modules, source lines) are kept,
# see lasting_rows. References to rows that are gone are removed when the trace is read, see let_go.
# The file is cut before it is written again, so a program that is killed in between leaves a
# readable trace.

BEGINNING: Final = 3
"""Steps at the beginning of a run that a ring never lets go: they create what later ones use."""
SHARE: Final = 8
"""The part of the allowed size in which the latest steps are kept when the rest is full."""
RARELY: Final = 20
"""Between two boundaries passes this many times the time that one takes."""
WORTH_IT: Final = 1 << 16
"""Smallest number of bytes for which the rest of the ring is written again."""


SMALL: Final = 1 << 16
"""Rows that stayed of steps that are gone are joined with those before, if those are smaller."""


@dataclass(frozen=True, slots=True)
class Segment:
    """Rows from the beginning of a step on, up to the next segment."""

    step: int  # number of recorded steps before it
    at: WriteProgress  # what was written before it
    is_kept: bool = False  # something was found near it: it is not let go


class RingWriter(FileWriter):
    """A trace file that, when it is nearly full, keeps the latest steps. See Note [Latest steps].

    `keep`: number of recorded steps that are there at any time. `from_start`: let steps go from the
    beginning, not only when `max_bytes` is nearly reached.
    """

    def __init__(
        self,
        path: str | PathLike[str],
        max_bytes: int | None = None,
        *,
        keep: int,
        from_start: bool = False,
        background: bool | None = None,
    ) -> None:
        self.keep = keep
        self._starts_at = 0 if from_start or max_bytes is None else max_bytes - max_bytes // SHARE
        self._segments: deque[Segment] = deque()
        self._lasting: list[WriteProgress] = []
        """Where rows begin that stayed of steps that are gone, right before the segments."""
        self._due = 0  # time from which on the next boundary may be
        self._step = 0  # number of recorded steps at the last boundary
        self.hear: Callable[[type[Row], Mapping[str, Values]], None] | None = None
        """Called with all rows."""
        self.let_go = 0  # number of steps that are gone from the file
        self.pinned_bytes = 0  # size of the steps that are kept because something was found
        super().__init__(path, max_bytes, background=background)

    def block(self, row: type[Row], columns: Mapping[str, Values], amend: bool = False) -> None:  # noqa: FBT001, FBT002
        super().block(row, columns, amend)
        if self.hear is not None and not amend:
            self.hear(row, columns)

    def is_due(self, step: int) -> bool:
        """Whether a segment should begin with this step: the number of recorded steps before it."""
        if not self._segments and step < BEGINNING:
            return False
        last = self._segments[-1].at.size if self._segments else self._starts_at
        return (
            step - self._step >= max(1, self.keep // 4) and perf_counter_ns() > self._due
        ) or self._written.size - last > self._budget() // 16

    @property
    def is_near(self) -> bool:
        """Whether steps are let go from now on, or soon."""
        return self._written.size >= self._starts_at

    def begin_segment(self, step: int, tensors: Array, began: int) -> None:
        """Begin a segment at a step, and let the oldest go; everything before it is committed.

        `tensors`: ids of the leaves that still exist. `began`: when this boundary was begun.
        """
        self._begin_segment(step, tensors)
        now = perf_counter_ns()
        self._due = now + RARELY * (now - began)

    def _begin_segment(self, step: int, tensors: Array) -> None:
        self.settle()
        if self._closed or self._failure is not None or self._process != os.getpid():
            return
        self._step = step
        if self._written.size < self._starts_at:
            self._segments.clear()  # everything before it stays
        self._segments.append(Segment(step, self._written))
        if self._written.size >= self._starts_at and self._is_worth_it(step):
            self._let_go(step, tensors)

    def keep_from(self, step: int) -> None:
        """Never let go the segments that exist now and have steps from this one on.

        Together they take at most half of the allowed size.
        """
        kept = self._written.size - self._segments[0].at.size if self._segments else 0
        if self._max_bytes is not None and self.pinned_bytes + kept > self._max_bytes // 2:
            return
        parts = list(self._segments)
        ends = [part.step for part in parts[1:]] + [self._step + 1]
        self._segments = deque(
            replace(part, is_kept=part.is_kept or end > step)
            for part, end in zip(parts, ends, strict=True)
        )

    def end(self, step: int, tensors: Array) -> None:
        """Let go what does not belong to the latest steps, before the recording ends."""
        self.settle()
        if self._segments and self._written.size >= self._starts_at and self._old(step):
            self._let_go(step, tensors)

    def _old(self, step: int) -> int:
        """How many segments are older than the steps to keep, when this one begins."""
        starts = [part.step for part in self._segments]
        old = max(sum(step - start >= self.keep for start in starts) - 1, 0)
        most = self._written.size - self._budget() // 2
        while old < len(starts) - 2 and self._segments[old].at.size < most:
            old += 1  # so many steps do not fit
        return old

    def _budget(self) -> int:
        """Number of bytes that the ring may have."""
        return (self._max_bytes or 1 << 62) - self._starts_at

    def _is_worth_it(self, step: int) -> bool:
        old = self._old(step)
        if not old:
            return False
        segments = self._segments
        gone = segments[old].at.size - segments[0].at.size
        kept = self._written.size - segments[old].at.size
        room = (self._max_bytes or 1 << 62) - self._written.size
        return gone >= kept + WORTH_IT or room < 2 * kept + WORTH_IT

    def _let_go(self, step: int, tensors: Array) -> None:
        """Write the newer segments in the place of the older ones, whatever interrupts this."""
        thread = Thread(target=self._rewrite, args=(step, tensors), name="gradscope ring")
        thread.daemon = True
        try:
            thread.start()
        except RuntimeError:  # the system cannot start a thread
            self._rewrite(step, tensors)
        else:
            thread.join()

    def _rewrite(self, step: int, tensors: Array) -> None:
        with self._writing, suppress(OSError):  # the program removed the file: it only grows
            if self._has_failed():
                return
            segments, old = list(self._segments), self._old(step)
            if old == 0 or self._written.size <= segments[0].at.size:
                return
            before = list(self._lasting)
            while before and segments[0].at.size - before[-1].size < SMALL:
                segments.insert(0, Segment(segments[0].step, before.pop()))
                old += 1
            ends = [part.at for part in segments[1:]] + [self._written]
            first, text = segments[0].at, self._text_from(segments[0].at)
            windows = [
                self._lines(text[part.at.text - first.text : end.text - first.text], part.at, end)
                for part, end in zip(segments, ends, strict=True)
            ]
            self._pen.cut(first.size)
            self._lasting = before
            del self._entries[first.lines :]
            self._written = replace(
                self._written, size=first.size, text=first.text, lines=first.lines
            )
            self._put_segments(segments, windows, old, tensors)

    def _put_segments(
        self, segments: Sequence[Segment], windows: Sequence[Windows], old: int, tensors: Array
    ) -> None:
        """Append what is kept of these segments; the first `old` of them are let go, or pinned."""
        kept: deque[Segment] = deque()
        gone: list[Line] = []
        for number, (part, lines) in enumerate(zip(segments, windows, strict=True)):
            if number < old and not part.is_kept:
                gone += [line for window in lines for line in window]
                self.let_go += segments[number + 1].step - part.step
                continue
            if gone:
                self._lasting.append(self._written)
                self._put_lines([[*lasting(gone, tensors, self._written.windows)]])
                gone = []
            before = self._written
            self._put_lines(lines)
            if number < old:
                self.pinned_bytes += self._written.size - before.size
                self._lasting.clear()
            else:
                kept.append(replace(part, at=before))
        self._segments = kept

    def _text_from(self, start: WriteProgress) -> bytes:
        """The text of the file from here on."""
        packed = self._pen.read(start.size, self._written.size)
        return b"".join(unpacked(BytesIO(packed), len(packed)))

    def _lines(self, text: bytes, start: WriteProgress, end: WriteProgress) -> Windows:
        """The lines of blocks in a part of the file, by window."""
        windows: Windows = [[]]
        entries = iter(self._entries[start.lines : end.lines])
        for line in text.splitlines(keepends=True):
            if line.startswith(b'{"table":'):
                windows[-1].append((line, next(entries)))
            else:
                windows.append([])
        return [window for window in windows if window]

    def _put_lines(self, windows: Windows) -> None:
        """Append windows of lines, with their entries in the index."""
        for lines in filter(None, windows):
            places: list[IndexEntry] = []
            offset = self._written.text
            for line, place in lines:
                places.append(place._replace(offset=offset, length=len(line)))
                offset += len(line)
            end = window_line(lines[0][1].window, len(lines))
            text = b"".join([*(line for line, _ in lines), end])
            then = replace(self._written, lines=self._written.lines + len(lines))
            self._entries.extend(places)
            self._append(text, self._pack(text), then)
