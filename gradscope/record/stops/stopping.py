"""`--stop-on`: ends a script where something was found in what it has recorded so far.

# Note [When one looks]
When a backward has ended one asks whether a tensor was seen that is not finite, which costs
nothing; if so, what was noted is written out, and the whole trace looked through. In programs with
harmless Infs, as masks have, and with `rule:`, where nothing tells whether it is worth a look, that
may take a tenth of the time, and AT_FIRST besides; when that is used up, looks come later. Every
quarter of a second, and when the script has ended, one looks as well.

# Note [How it ends]
As by `sys.exit`, at the script's next line: there a trace function raises, as a debugger's would
stop. Where the script has a trace function itself, or its backwards run on another thread, or it
was in none, a signal brings the word, which waits for a convenient moment (script/signals.py).
"""

from __future__ import annotations

import _thread
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from gradscope.record.process.periodic_flush import Pulse
from gradscope.trace.file.file_writer import FileWriter

if TYPE_CHECKING:
    from gradscope.record.notes.own_time import OwnTime
    from gradscope.trace.file.prepare import Values
    from gradscope.trace.schema.declare import Row

SHARE, AT_FIRST = 0.1, 0.5
"""Of the time, and seconds: what looking may take."""

KINDS: Mapping[str, tuple[str, ...]] = {"nan": ("nan",), "inf": ("posinf", "neginf")}
"""What may be waited for, and the columns that count it."""

SPARE = ("SIGUSR2", "SIGUSR1", "SIGPROF", "SIGVTALRM")
"""Signals of which the first that nobody handles brings the word to the main thread."""


@dataclass(frozen=True, slots=True)
class StopOn:
    """What a script is ended for."""

    words: str  # "nan or inf"
    kinds: frozenset[str]  # of KINDS, one of which must have been counted; none: nothing must
    judge: Callable[[Path], bool]  # whether it is in this trace


class CountingWriter(FileWriter):
    """Knows which of KINDS are in what was written since somebody last asked."""

    def __init__(self, path: Path, max_bytes: int | None = None) -> None:
        super().__init__(path, max_bytes)
        self.seen: set[str] = set()

    def block(self, row: type[Row], columns: Mapping[str, Values], amend: bool = False) -> None:
        super().block(row, columns, amend)
        for kind, names in KINDS.items():
            if any(name in columns and np.any(np.asarray(columns[name])) for name in names):
                self.seen.add(kind)


class Session(Protocol):
    """What this needs of a recording's."""

    task_ended: Callable[[], None]
    not_finite: Callable[[], int]
    own_time: OwnTime

    def flush(self) -> bool:
        """Hand all notes so far to the writer."""


class Recording(Protocol):
    """What this needs of a recording."""

    def seal(self, ending: Mapping[str, Any]) -> bool:
        """Make the file whole as it is now."""

    def unseal(self) -> None:
        """It goes on."""


class Watchman:
    """Looks at a recording now and then, and calls `stop` once, when something was found."""

    def __init__(
        self,
        stop_on: StopOn,
        recording: Recording,
        writer: CountingWriter,
        stop: Callable[[], None],
    ) -> None:
        self._stop_on = stop_on
        self._recording = recording
        self._writer = writer
        self._stop = stop
        self._looking = threading.Lock()
        self._began = perf_counter()
        self._spent = 0.0
        self._per_byte = 0.0  # of the trace: what the last look took
        self._not_finite = 0
        self._session: Session | None = None
        self._pulse = Pulse(self.look)
        self.found = False

    def watch(self, session: Session) -> None:
        """Look from now on."""
        self._session, before = session, session.task_ended

        def ended() -> None:
            before()
            self.look()

        session.task_ended = ended
        self._pulse.start()

    def off_duty(self) -> bool:
        """Look no longer, after a last look; whether only that one found it."""
        self._pulse.stop()
        before, self._stop, self._spent = self.found, _nothing, 0.0
        self.look()
        self._session = None
        return self.found and not before

    def look(self) -> None:
        """Whether it is there now, if it is time to look; a fault of ours is said."""
        session = self._session
        if session is None or self.found or not self._looking.acquire(blocking=False):
            return
        try:
            self.found = self._is_there(session)
        except Exception as error:  # noqa: BLE001  must not reach the script
            self._session = None
            sys.stderr.write(f"gradscope: --stop-on looks no more, by a fault: {error!r}\n")
        finally:
            self._looking.release()
        if self.found:
            self._stop()

    def _is_there(self, session: Session) -> bool:
        began, kinds = perf_counter(), self._stop_on.kinds
        not_finite = session.not_finite()
        if kinds and not_finite == self._not_finite:
            return False
        foreseen = self._spent + self._per_byte * _size(self._writer.path)
        if foreseen > AT_FIRST + SHARE * (began - self._began):
            return False
        try:
            if not session.flush():
                return False
            self._not_finite = not_finite
            return self._is_in_trace(session)
        finally:
            took = perf_counter() - began
            self._spent += took
            self._per_byte = took / max(_size(self._writer.path), 1)

    def _is_in_trace(self, session: Session) -> bool:
        kinds, seen = self._stop_on.kinds, self._writer.seen
        if kinds and not kinds & seen:
            return False
        seen.clear()
        with session.own_time.working("looking"):
            if not self._recording.seal({"exit": "ok"}):
                return False
            try:
                return self._stop_on.judge(self._writer.path)
            finally:
                self._recording.unseal()


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:  # somebody has taken it away
        return 0


def raised_at_next_line(error: type[BaseException], is_scripts: Callable[[CodeType], bool]) -> bool:
    """Raise this at the next line of the innermost frame of the script; False: it cannot be.

    Only the main thread's error ends a script. See Note [How it ends].
    """
    if threading.current_thread() is not threading.main_thread() or sys.gettrace() is not None:
        return False
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not is_scripts(frame.f_code):
        frame = frame.f_back
    if frame is None:
        return False

    def at_next_line(frame: FrameType, event: str, arg: object) -> None:
        sys.settrace(None)
        frame.f_trace = None
        raise error

    frame.f_trace = at_next_line
    sys.settrace(_no_other_frame)
    return True


def _nothing() -> None:
    """There is nothing to stop any more."""


def _no_other_frame(frame: FrameType, event: str, arg: object) -> None:
    """What is called meanwhile is not traced."""


def spare_signal() -> signal.Signals | None:
    """A signal that nobody handles; None where there is none."""
    for name in SPARE:
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) == signal.SIG_DFL:
            return signal.Signals(number)
    return None


def tell_main_thread(number: signal.Signals) -> None:
    """Have this signal's handler called in the main thread, as if it had come."""
    _thread.interrupt_main(number)
