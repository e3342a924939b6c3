"""`--stop-on`: a breakpoint without interaction: the program ends, and the finding is printed.

# Note [When the trace is inspected]
After each backward it is checked whether a non-finite tensor was seen, which costs nothing; if so,
the notes are written out and the whole trace is inspected. In programs with harmless Infs, such as
masks, and with `rule:`, where there is no such hint, that may take a tenth of the time plus
AT_FIRST; then inspections are delayed. The trace is also inspected every quarter of a second, and
when the script has ended.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import TYPE_CHECKING

from gradscope.record.process.periodic_flush import Pulse

if TYPE_CHECKING:
    from gradscope.record.recording import Recording
    from gradscope.trace.trace import Trace

SHARE, AT_FIRST = 0.1, 0.5
"""Share of the time, and initial seconds, that inspections may take."""

FEW = 1000
"""Number of events below which inspections take equally long."""


class Looks:
    """Limits how often the trace so far is inspected, by its cost."""

    def __init__(self) -> None:
        self._began = perf_counter()
        self._last = self._spent = self._per_event = 0.0

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
            self._last = perf_counter()
            self._spent += self._last - began
            self._per_event = (self._last - began) / max(events, FEW)


class StopOnFinding:
    """Ends a program, by `stop`, once the trace so far has a finding."""

    def __init__(self, judge: Callable[[Trace], bool], *, counted: bool) -> None:
        self._judge = judge
        self._counted = counted  # only possible if a non-finite tensor was seen
        self._looks = Looks()
        self._looking = threading.Lock()
        self._not_finite = 0
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
            self.look()

        session.task_ended = ended
        self._pulse.start()

    def off_duty(self) -> bool:
        """Stop after a last inspection. Returns whether that one found it."""
        self._pulse.stop()
        before, self._stop, self._looks = self.found, _nothing, Looks()
        self.look()
        self._recording = None
        return self.found and not before

    def look(self) -> None:
        """Whether the finding exists now, if it is time to inspect; our own errors are printed."""
        recording = self._recording
        if recording is None or self.found or not self._looking.acquire(blocking=False):
            return
        try:
            self.found = self._is_there(recording)
        except Exception as error:  # noqa: BLE001  must not reach the script
            self._recording = None
            sys.stderr.write(f"gradscope: --stop-on was disabled by an internal error: {error!r}\n")
        finally:
            self._looking.release()
        if self.found:
            self._stop()

    def _is_there(self, recording: Recording) -> bool:
        session = recording.session
        not_finite = 0 if session is None else session.not_finite()
        if session is None or (self._counted and not_finite == self._not_finite):
            return False
        events = recording.events()
        if not self._looks.may(events):
            return False
        with self._looks.one(events):
            trace = recording.as_if_over()
            if trace is None:
                return False
            self._not_finite = not_finite
            return self._judge(trace)


def _nothing() -> None:
    """Do nothing: there is nothing to stop."""
