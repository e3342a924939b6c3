"""One recording, whatever it watches: what sources need alike, and when notes are written out."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from gradscope.errors import RecordingError
from gradscope.record.acts.source.backwards import StepsByBackward
from gradscope.record.acts.watching import WatchedActs
from gradscope.record.notes.one_at_a_time import Alone
from gradscope.record.notes.own_time import WRITING, OwnTimeClock
from gradscope.record.notes.positions.contexts import Contexts
from gradscope.record.notes.record_numbers import RecordNumbers
from gradscope.record.notes.sites import Sites
from gradscope.record.process.ranks import this_process
from gradscope.record.source import Ended
from gradscope.trace.writer import Overheard
from gradscope.watch.in_place.faults import Faults

if TYPE_CHECKING:
    from collections.abc import Callable

    from gradscope.record.notes.log import Ints
    from gradscope.record.source import Pause, RecordingSource, WatchableEngine
    from gradscope.record.stops.stop_places import StopPlaces
    from gradscope.trace.writer import Writer

MANY = 1 << 16
"""Records that are worth a window in the file."""

SOON, CALM = 50_000_000, 750_000_000
"""Nanoseconds after which notes are flushed at the next occasion, however few there are."""


class FlushPace:
    """How long notes wait: SOON at first, since a program may not live long; at last CALM."""

    def __init__(self, start: int) -> None:
        self.last = start
        self._wait = SOON

    def is_due(self) -> bool:
        """Whether the last time was long ago. If so, the next wait is four times as long."""
        due = time.perf_counter_ns() - self.last > self._wait
        if due:
            self._wait = min(4 * self._wait, CALM)
        return due


class Session:
    """Everything one recording needs. `flush` may be called at any time, from any thread."""

    def __init__(
        self,
        writer: Writer,
        start: int,
        engine: WatchableEngine,
        *,
        level: str = "engine",
        native: bool = True,
    ) -> None:
        self.writer = writer = Overheard(writer)
        self.start = start
        self.level = level
        self.native = native
        self.numbers = RecordNumbers()
        self.sites = Sites(writer, whole=level == "full", machinery=engine.machinery)
        self.contexts = Contexts(
            writer, start, self.numbers.base, engine, rank=this_process().number
        )
        self.alone = Alone()
        self.faults = Faults()
        self.own_time = OwnTimeClock()
        self.acts = WatchedActs(self)
        self.steps = StepsByBackward(self.contexts, self.sites.is_machinery)
        self.task_ended: Callable[[], None] = self.flush_if_due
        self.closed: Callable[[], None] = _nothing  # called when nothing is read any more
        self.not_finite: Callable[[], int] = _none  # of the tensors looked at, so far: asked often
        self._pace = FlushPace(start)
        self._closed = False
        self.places: StopPlaces | None = None  # at which the program can be stopped, if it can
        self.module_paths: list[str] = []  # of modules that were met, by their ids
        self.source: RecordingSource = engine.watch(self)

    @property
    def base(self) -> int:
        """The number below all that this recording gives out."""
        return self.numbers.base

    def backward_ended(self, *, creates: bool) -> None:
        """One that ran in no other is over, recorded or not; whether it was to make a graph."""
        if not self.contexts.steps.is_told:
            self.steps.ended(sys._getframe(1), creates=creates)
        if self.acts.acts.on:
            self.acts.backward_ended()
        self.task_ended()

    def flush_if_worth_it(self, waiting: int = 0) -> None:
        """Flush when so many records wait that there is much to write, or it is time."""
        if waiting >= MANY:
            self._flush_if_open()
        else:
            self.flush_if_due()

    def flush_if_due(self, *, wait: bool = True) -> None:
        """Flush when the last time was long ago, so that little is lost if the program dies."""
        if self._pace.is_due():
            self._flush_if_open(wait=wait)

    def flush(self, then: Callable[[], None] | None = None, *, ends: bool = False) -> bool:
        """Hand all notes so far to the writer; False if that was interrupted for this.

        `then` is done before anybody can hand on more. `ends`: there may be no other time.
        """
        if self._closed:
            raise RecordingError("this recording has ended, and its notes are written")
        return self._flush_if_open(then, ends=ends)

    def _flush_if_open(
        self, then: Callable[[], None] | None = None, *, wait: bool = True, ends: bool = False
    ) -> bool:
        """The same; after the end threads may still run that the program left behind."""
        with self.alone(wait=wait) as alone:
            if not alone or self._closed:
                return False
            with self.own_time.working(WRITING):
                # What names others goes first: threads may note both, and a name needs its row.
                self.acts.flush(last=ends)
                self.source.flush()
                self.contexts.flush()
                self.sites.flush()
                self.writer.commit()
            self._pace.last = time.perf_counter_ns()
            if then is not None:
                then()
            return True

    def pause(self) -> Pause:
        """Leave out what comes now."""
        self.acts.pause()
        return self.source.pause()

    def resume(self) -> None:
        """Watch again."""
        self.source.resume()
        self.acts.resume()

    def stop(self, error: BaseException | None = None) -> None:
        """Watch no longer; `error`: what ended the program."""
        self.acts.ending(error)
        self.source.stop()
        self.acts.stop()
        self.acts.compare_functions()

    def abandon(self) -> None:
        """Let go, in a child."""
        self.source.abandon()
        self.acts.stop()

    def unseen(self) -> dict[str, int]:
        """What could not be seen, in words, and how many times."""
        return {**self.source.unseen(), **self.faults.in_words()}

    def ids(self, numbers: Any) -> Ints:
        """Numbers as the trace has them: halved, from 0; NONE for `base`."""
        return np.asarray(numbers, np.int64) - (self.base + 2) >> 1

    def put(self, row: Any, columns: dict[str, Any]) -> None:
        """A block of columns nobody else holds."""
        for column in columns.values():
            if isinstance(column, np.ndarray):
                column.flags.writeable = False
        self.writer.block(row, columns)

    def close(self) -> None:
        """Write what is left; nothing can be written after it."""
        self.contexts.finish()
        try:
            self.flush(ends=True)
        finally:
            self._closed = True
            self.numbers.retire()
            self._part()

    def _part(self) -> None:
        """Hold nobody who holds this: what is over goes at once, with all that was noted."""
        self.closed()
        self.closed = self.task_ended = _nothing
        self.not_finite = _none
        self.contexts.steps.on_begin = None
        self.acts.over()
        self.source = Ended(self.source)


def _none() -> int:
    """How many there are where nobody counts."""
    return 0


def _nothing() -> None:
    """What is done when a recording is over."""
