"""A trace file of limited size: the beginning of a run, and its latest steps."""

from __future__ import annotations

import os
from collections import deque
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from threading import Thread
from time import perf_counter_ns
from typing import TYPE_CHECKING, Final

import numpy as np

from gradscope.trace.file.compression import unpacked
from gradscope.trace.file.file_lines import window_line
from gradscope.trace.file.file_writer import FileWriter, WriteProgress
from gradscope.trace.file.lasting_rows import lasting

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from os import PathLike

    from gradscope.trace.file.index import IndexEntry
    from gradscope.trace.file.lasting_rows import Line
    from gradscope.trace.ragged import Array

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
RARELY: Final = 50
"""Between two boundaries passes this many times the time that one takes."""
WORTH_IT: Final = 1 << 16
"""Smallest number of bytes for which the rest of the ring is written again."""


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
        self._due = 0  # time from which on the next boundary may be
        self._step = 0  # number of recorded steps at the last boundary
        self.let_go = 0  # number of steps that are gone from the file
        self.pinned = 0  # number of steps that are kept because something was found
        super().__init__(path, max_bytes, background=background)

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
        """Do not let go segments with steps from this one on that exist now."""
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
        with self._writing:
            if self._has_failed():
                return
            segments, old = list(self._segments), self._old(step)
            first = segments[0].at
            if old == 0 or self._written.size <= first.size:
                return
            ends = [part.at for part in segments[1:]] + [self._written]
            text = self._text_from(first)
            whole = [
                self._lines(text[part.at.text - first.text : end.text - first.text], part.at, end)
                for part, end in zip(segments, ends, strict=True)
            ]
            now = self._written
            del self._entries[first.lines :]
            self._pen.cut(first.size)
            self._written = replace(now, size=first.size, text=first.text, lines=first.lines)
            kept: deque[Segment] = deque()
            for number, (part, lines) in enumerate(zip(segments, whole, strict=True)):
                if number < old and not part.is_kept:
                    self._put_lines([[*lasting(_flat(lines), tensors, now.windows)]])
                    self.let_go += segments[number + 1].step - part.step
                    continue
                if number >= old:
                    kept.append(replace(part, at=self._written))
                else:
                    self.pinned += segments[number + 1].step - part.step
                self._put_lines(lines)
            self._segments = kept

    def _text_from(self, start: WriteProgress) -> bytes:
        """The text of the file from here on."""
        self._pen.wait()
        size = self._written.size - start.size
        with Path(self._pen.path).open("rb") as file:
            file.seek(start.size)
            packed = file.read(size)
        return b"".join(unpacked(BytesIO(packed), size))

    def _lines(self, text: bytes, start: WriteProgress, end: WriteProgress) -> list[list[Line]]:
        """The lines of blocks in a part of the file, by window."""
        windows: list[list[Line]] = [[]]
        entries = iter(self._entries[start.lines : end.lines])
        for line in text.splitlines(keepends=True):
            if line.startswith(b'{"table":'):
                windows[-1].append((line, next(entries)))
            else:
                windows.append([])
        return [window for window in windows if window]

    def _put_lines(self, windows: Sequence[Sequence[Line]]) -> None:
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


def _flat(windows: Sequence[Sequence[Line]]) -> Iterator[Line]:
    for lines in windows:
        yield from lines


NO_TENSORS: Final = np.zeros(0, np.int64)
