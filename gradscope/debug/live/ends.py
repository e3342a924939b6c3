"""`--stop-on` and `--around`: what happens when the trace so far has a finding.

`--stop-on` ends the program and prints the finding, `--around` keeps the steps around it.

# Note [When the trace is inspected]
After each backward it is checked whether another tensor with NaN (or, for `inf`, with NaN or Inf)
was seen, which costs nothing; if so, the notes are written out and the whole trace is inspected.
When there are MORE times as many tensors with NaN as before, it is inspected without delay: a few
may be harmless (memory that is filled later), and a NaN in a training soon spreads to many. With
`inf` in programs with harmless Infs, such as masks, and with `rule:`, where there is no such hint,
that may take a tenth of the time plus AT_FIRST; then inspections are delayed. The trace is also
inspected every quarter of a second, for programs without a backward, and when the script has ended.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import inf
from time import perf_counter
from typing import TYPE_CHECKING

from gradscope.record.process.periodic_flush import Pulse

if TYPE_CHECKING:
    from gradscope.record.recording import Recording
    from gradscope.trace.trace import Trace

SHARE, AT_FIRST = 0.1, 0.5
"""Share of the time, and initial seconds, that inspections may take."""

MORE = 2
"""The growth of the number of tensors with NaN from which it is inspected whatever that costs."""

FEW = 1000
"""Number of events below which inspections take equally long."""


class Looks:
    """Limits how often the trace so far is inspected, by its cost.

    The first inspection also imports, and is not counted. Of the others the lowest cost per event
    counts: some may have waited for the program, and a high estimate would never be corrected.
    """

    def __init__(self) -> None:
        self._began = perf_counter()
        self._last = -inf  # none yet
        self._spent = self._per_event = 0.0

    def may(self, events: int, pause: float = 0.0) -> bool:
        """Whether this many events may be inspected now; `pause`: least time between two."""
        now = perf_counter()
        foreseen = self._spent + self._per_event * events
        return now - self._last >= pause and foreseen <= AT_FIRST + SHARE * (now - self._began)

    @contextmanager
    def one(self, events: int) -> Iterator[None]:
        """Measure an inspection."""
        began = perf_counter()
        try:
            yield
        finally:
            is_first, self._last = self._last == -inf, perf_counter()
            if not is_first:
                cost = (self._last - began) / max(events, FEW)
                self._per_event = min(self._per_event or inf, cost)
                self._spent += self._last - began


class StopOnFinding:
    """Ends a program, by `stop`, once the trace so far has a finding.

    `hint`: what another tensor must have before there can be a finding: "nan", "inf" (or NaN), or
    "" if nothing hints at it. `option`: the option that requested it.
    """

    def __init__(
        self, judge: Callable[[Trace], bool], hint: str = "", option: str = "--stop-on"
    ) -> None:
        self._option = option
        self._judge = judge
        self._hint = hint
        self._looks = Looks()
        self._looking = threading.Lock()
        self._hints = self._pulsed = 0  # number of tensors at the last inspection, and last pulse
        self._recording: Recording | None = None
        self._stop: Callable[[], None] = _nothing
        self._pulse = Pulse(self.look)
        self.found = False

    def watch(self, recording: Recording, stop: Callable[[], None]) -> None:
        session = recording.session
        if session is None:
            return
        self._recording, self._stop, before = recording, stop, session.task_ended

        def ended() -> None:
            before()
            self._look(self._is_time_after_backward)

        session.task_ended = ended
        self._pulse.start()

    def rest(self) -> None:
        """Stop without a last inspection."""
        self._pulse.stop()
        self._recording = None

    def off_duty(self) -> bool:
        """Stop after a last inspection. Returns whether that one found it."""
        self._pulse.stop()
        before, self._stop, self._looks = self.found, _nothing, Looks()
        self._look(_always)
        self._recording = None
        return self.found and not before

    def look(self) -> None:
        """Inspect the trace so far, if it is time: called every quarter of a second."""
        self._look(self._is_time)

    def _look(self, is_time: Callable[[int, int], bool]) -> None:
        """Stop the program if the finding exists now; our own errors are printed."""
        recording = self._recording
        if recording is None or self.found or not self._looking.acquire(blocking=False):
            return
        try:
            self.found = self._is_there(recording, is_time)
        except Exception as error:  # noqa: BLE001  must not reach the script
            self._recording = None
            sys.stderr.write(
                f"gradscope: {self._option} was disabled by an internal error: {error!r}\n"
            )
        finally:
            self._looking.release()
        if self.found:
            self._stop()

    def _is_time_after_backward(self, events: int, hints: int) -> bool:
        is_urgent = self._hint == "nan" and hints > MORE * self._hints
        return is_urgent or self._looks.may(events)

    def _is_time(self, events: int, hints: int) -> bool:
        """A backward that runs is left to end: only then is all of it recorded."""
        is_old = not self._hint or hints == self._pulsed
        self._pulsed = hints
        return is_old and self._looks.may(events)

    def _is_there(self, recording: Recording, is_time: Callable[[int, int], bool]) -> bool:
        session = recording.session
        if session is None:
            return False
        not_finite, with_nan = session.not_finite()
        hints = {"nan": with_nan, "inf": not_finite, "": 0}[self._hint]
        if self._hint and hints == self._hints:
            return False
        events = recording.events()
        if not is_time(events, hints):
            return False
        with self._looks.one(events):
            trace = recording.as_if_over()
            if trace is None:
                return False
            self._hints = hints
            return self._judge(trace)


def _always(_events: int, _hints: int) -> bool:
    return True


def _nothing() -> None:
    """Do nothing: there is nothing to stop."""
