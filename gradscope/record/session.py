"""The state of one recording: what all sources need, and when notes are written."""

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
from gradscope.record.process.pace import FlushPace, moment, spent
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
"""Number of records that fill a window in the file."""


class Session:
    """The state of one recording. `flush` may be called at any time, from any thread."""

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
        self.closed: Callable[[], None] = _nothing  # called when nothing is read anymore
        self.not_finite: Callable[[], tuple[int, int]] = _none
        """Number of tensors so far with NaN or Inf, and of those with NaN. Called often."""
        self._pace = FlushPace(start)
        self._closed = False
        self.places: StopPlaces | None = None  # where the program can be stopped, if enabled
        self.module_paths: list[str] = []  # of known modules, by id
        self.source: RecordingSource = engine.watch(self)

    @property
    def base(self) -> int:
        """The number below all those that this recording assigns."""
        return self.numbers.base

    def backward_ended(self, *, creates: bool) -> None:
        """Called at the end of an outermost backward, recorded or not; `creates`: create_graph."""
        if not self.contexts.steps.is_told:
            self.acts.measure_backward()
            self.steps.ended(sys._getframe(1), creates=creates)
        if self.acts.acts.on:
            self.acts.backward_ended()
        self.task_ended()

    def flush_if_worth_it(self, waiting: int = 0) -> None:
        """Flush if many records are waiting, or if the wait is over."""
        if waiting >= MANY:
            self._flush_if_open()
        else:
            self.flush_if_due()

    def flush_if_due(self, *, wait: bool = True) -> None:
        """Flush if the wait is over, so that little is lost if the program crashes."""
        if self._pace.is_due():
            self._flush_if_open(wait=wait)

    def flush_before_waiting(self, is_new: bool) -> None:
        """Flush before the program waits for other processes, if there is time for it.

        An exchange that does not fit may end the process at once, with what was not written.
        `is_new`: no such exchange came from this line before.
        """
        if self._pace.affords(time.perf_counter_ns(), is_new=is_new):
            began = moment()
            self._flush_if_open(wait=False)
            self._pace.took(spent(began, moment()))

    def flush(self, then: Callable[[], None] | None = None, *, ends: bool = False) -> bool:
        """Pass all notes so far to the writer; False if another flush was interrupted by this.

        `then` is called before anything else can be written. `ends`: this may be the last flush.
        """
        if self._closed:
            raise RecordingError("this recording has ended and is written")
        return self._flush_if_open(then, ends=ends)

    def _flush_if_open(
        self, then: Callable[[], None] | None = None, *, wait: bool = True, ends: bool = False
    ) -> bool:
        """Like `flush`; after the end, threads of the program may still be running."""
        with self.alone(wait=wait) as alone:
            if not alone or self._closed:
                return False
            with self.own_time.working(WRITING):
                # Rows that refer to others go first: threads may add both meanwhile.
                self.acts.flush(last=ends)
                self.source.flush(last=ends)
                self.contexts.flush()
                self.sites.flush()
                self.writer.commit()
            self._pace.last = time.perf_counter_ns()
            if then is not None:
                then()
            return True

    def pause(self) -> Pause:
        """Pause recording."""
        pause = self.source.pause()  # first: its stand-ins may call those of acts
        self.acts.pause()
        self._pace.is_seldom = True
        return pause

    def resume(self) -> None:
        """Resume recording."""
        self._pace.is_seldom = False
        self.acts.resume()
        self.source.resume()

    def stop(self, error: BaseException | None = None) -> None:
        """Stop recording; `error`: the exception that ended the program."""
        self.acts.ending(error)
        self.source.stop()
        self.acts.stop()
        self.acts.compare_functions()
        self.acts.check_nodes()

    def abandon(self) -> None:
        """Release everything in a forked child."""
        self.source.abandon()
        self.acts.stop()

    def unseen(self) -> dict[str, int]:
        """Descriptions of what could not be recorded, with their counts."""
        return {**self.source.unseen(), **self.faults.in_words()}

    def ids(self, numbers: Any) -> Ints:
        """Ids of the trace for numbers: halved, from 0; NONE for `base`."""
        return np.asarray(numbers, np.int64) - (self.base + 2) >> 1

    def put(self, row: Any, columns: dict[str, Any]) -> None:
        """Write a block of columns to which there are no other references."""
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
        """Release references that form cycles, so that memory is freed at once."""
        self.closed()
        self.closed = self.task_ended = _nothing
        self.not_finite = _none
        self.contexts.steps.before = self.contexts.steps.on_begin = None
        self.acts.over()
        self.source = Ended(self.source)


def _none() -> tuple[int, int]:
    """Zeros, if values are not measured."""
    return 0, 0


def _nothing() -> None:
    """Does nothing."""
