"""`--stop-on`: a breakpoint at which nobody is asked: the program ends, and what was found is said.

# Note [When one looks]
When a backward has ended one asks whether a tensor was seen that is not finite, which costs
nothing; if so, what was noted is written out, and the whole trace looked through. In programs with
harmless Infs, as masks have, and with `rule:`, where nothing tells whether it is worth a look, that
may take a tenth of the time, and AT_FIRST besides; when that is used up, looks come later. Every
quarter of a second, and when the script has ended, one looks as well.
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
"""Of the time, and seconds: what looking through the trace so far may take."""

FEW = 1000
"""So many events, or fewer, take alike."""


class Looks:
    """How often the trace so far may be looked through, by what that takes."""

    def __init__(self) -> None:
        self._began = perf_counter()
        self._last = self._spent = self._per_event = 0.0

    def may(self, events: int, pause: float = 0.0) -> bool:
        """Whether one may look at so many events now; `pause`: not sooner after the last time."""
        now = perf_counter()
        foreseen = self._spent + self._per_event * events
        return now - self._last >= pause and foreseen <= AT_FIRST + SHARE * (now - self._began)

    @contextmanager
    def one(self, events: int) -> Iterator[None]:
        """Inside, one looks."""
        began = perf_counter()
        try:
            yield
        finally:
            self._last = perf_counter()
            self._spent += self._last - began
            self._per_event = (self._last - began) / max(events, FEW)


class StopOnFinding:
    """Ends a program, by `stop`, once something was found in what it has recorded so far."""

    def __init__(self, judge: Callable[[Trace], bool], *, counted: bool) -> None:
        self._judge = judge
        self._counted = counted  # it is there only if a tensor was seen that is not finite
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
        """Look no longer, after a last look; whether only that one found it."""
        self._pulse.stop()
        before, self._stop, self._looks = self.found, _nothing, Looks()
        self.look()
        self._recording = None
        return self.found and not before

    def look(self) -> None:
        """Whether it is there now, if it is time to look; a fault of ours is said."""
        recording = self._recording
        if recording is None or self.found or not self._looking.acquire(blocking=False):
            return
        try:
            self.found = self._is_there(recording)
        except Exception as error:  # noqa: BLE001  must not reach the script
            self._recording = None
            sys.stderr.write(f"gradscope: --stop-on looks no more, by a fault: {error!r}\n")
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
    """There is nothing to stop any more."""
