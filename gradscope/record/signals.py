"""What Ctrl-C and a request to terminate do while a script is recorded."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

from gradscope.record.sites import PACKAGE
from gradscope.record.tracebacks import is_below

# Note [When an interruption is convenient]
# A signal arrives between any two steps of the program. If that is in the middle of the recorder,
# half of what it was told would be lost, and what is written later would not fit. So the signal is
# sent once more a millisecond later, until it finds the script or the engine at work. In the engine
# it waits a little longer, since most backwards are short, and then interrupts it.
AGAIN = 0.001
PATIENCE = 200
"""How many times a signal is sent again before it interrupts the engine itself."""

TERMINATING = tuple(
    getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)
)

_RECORDER = tuple(os.path.join(PACKAGE, room, "") for room in ("record", "trace"))  # noqa: PTH118
_ENGINE = (os.path.join(PACKAGE, "runtime", ""), "<road of")  # noqa: PTH118


class Signals:
    """Handles the signals that end programs; `bottom` is the file whose frames run the script."""

    def __init__(self, bottom: str, finish: Callable[[signal.Signals], None]) -> None:
        self.finishing = False  # the trace is being finished: whatever comes now is too late
        self._bottom = bottom
        self._finish = finish
        self._process = os.getpid()
        self._tries = 0

    def interrupt(self, number: int, frame: FrameType | None) -> None:
        """Ctrl-C: KeyboardInterrupt, as ever."""
        if os.getpid() == self._process and (self.finishing or self._later(number, frame)):
            return
        raise KeyboardInterrupt

    def terminate(self, number: int, frame: FrameType | None) -> None:
        """Leave a readable trace, then end as the signal asks for."""
        if os.getpid() != self._process:  # a child, which ends as it always did
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
            return
        if self.finishing or self._later(number, frame):
            return
        self.finishing = True
        try:
            self._finish(signal.Signals(number))
            for stream in (sys.stdout, sys.stderr):
                with suppress(OSError, RuntimeError, ValueError, AttributeError):
                    stream.flush()
        finally:
            os._exit(128 + number)

    def _later(self, number: int, frame: FrameType | None) -> bool:
        """Whether this is no good moment; then the signal will come again (see the Note above)."""
        self._tries += 1
        if _at_work(frame, self._bottom, patient=self._tries <= PATIENCE):
            timer = threading.Timer(AGAIN, _send, (number,))
            timer.daemon = True
            timer.start()
            return True
        self._tries = 0
        return False


def _at_work(frame: FrameType | None, bottom: str, *, patient: bool) -> bool:
    """Whether the recorder is at work; for the patient, also the engine, outside users' hooks."""
    innermost = True
    while frame is not None:
        code = frame.f_code
        file = code.co_filename
        if file == bottom:
            return False
        if file.startswith(_RECORDER):
            return True
        if patient and innermost and file.startswith(_ENGINE):
            return True
        innermost = innermost and is_below(code)
        frame = frame.f_back
    return False


def _send(number: int) -> None:
    main = threading.main_thread().ident
    if hasattr(signal, "pthread_kill") and main is not None:
        signal.pthread_kill(main, number)
    else:
        signal.raise_signal(number)


@contextmanager
def handled(signals: Signals) -> Iterator[None]:
    """Inside, the signals nobody else handles are handled here."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before: dict[signal.Signals, Any] = {}
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        before[signal.SIGINT] = signal.signal(signal.SIGINT, signals.interrupt)
    for number in TERMINATING:
        if signal.getsignal(number) == signal.SIG_DFL:
            before[number] = signal.signal(number, signals.terminate)
    try:
        yield
    finally:
        for number, usual in before.items():
            signal.signal(number, usual)
