"""What Ctrl-C and a request to terminate do while a script is recorded."""

from __future__ import annotations

import _thread
import ctypes
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TYPE_CHECKING, Any, ClassVar

from gradscope.errors import ExitCode
from gradscope.record.script.handlers import Arrivals, Handler, Instead, own_get, own_set
from gradscope.record.script.our_code import LONGEST, in_recorder
from gradscope.record.script.tracebacks import is_below
from gradscope.record.source import InScripts

if TYPE_CHECKING:
    from gradscope.record.script.unheard import Unheard

# Note [When an interruption is convenient]
# A signal arrives between any two instructions of the program. Inside the recorder, it would lose
# part of an event, and later rows would be inconsistent; inside the engine, part of what happened
# would not be recorded. So it waits until the current operation returns to the script or calls one
# of its hooks, if the engine can tell when; and the signal is sent again a millisecond later, until
# it interrupts the script's own code. A backward that takes longer is interrupted between two
# instructions of the function of a node, which the engine handles as an error.
AGAIN, SOON, AT_LAST = 0.001, 0.1, 2.0
"""Seconds: between two tries; until a node may be interrupted; until the engine may be."""

WRITES = 30
"""Seconds in which a trace must be finished before the program ends by a signal."""

TERMINATING = tuple(
    getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)
)


FIRST = 1
"""Process id of the first process of a container, which gets no such signal without a handler."""


class Stopped(SystemExit):
    """Ends the script, by request or `--stop-on`; its `finally` and `atexit` still run."""

    def __init__(self, by: str) -> None:
        super().__init__(int(ExitCode.STOPPED))
        self.by = by


class _Waiting:
    """A signal that waits for a convenient moment, and is sent again until then."""

    def __init__(self, number: int, handler: Handler) -> None:
        self._number = number
        self._handler = handler
        self._since: float | None = None  # when it arrived; None: it does not wait
        self._again: threading.Timer | None = None
        self._is_sent_again = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Called by the engine at a convenient moment."""
        if self._since is not None:
            self._handler(number, frame)

    def came_in_vain(self) -> bool:
        """Whether this is the repeated signal, which can be handled now."""
        again, self._is_sent_again = self._is_sent_again, False
        return again and self._since is None

    def waited(self) -> float:
        """Waiting time in seconds."""
        return 0.0 if self._since is None else time.monotonic() - self._since

    def wait(self, seconds: float) -> None:
        """Send it again after this many seconds, to the calling thread, which handles signals."""
        self._since = self._since or time.monotonic()
        self._cancel()
        self._again = threading.Timer(seconds, self._send, (threading.get_ident(),))
        self._again.daemon = True
        self._again.start()

    def end(self) -> None:
        """Called when it is handled."""
        self._since = None
        self._cancel()

    def _cancel(self) -> None:
        if self._again is not None:
            self._again.cancel()

    def _send(self, thread: int) -> None:
        self._is_sent_again = True
        if hasattr(signal, "pthread_kill"):
            signal.pthread_kill(thread, self._number)
        else:  # on Windows
            _thread.interrupt_main(self._number)  # type: ignore[arg-type]


def die_of(number: int) -> None:
    """End like a process without a handler for this signal, from any thread."""
    with suppress(AttributeError, OSError, TypeError, ValueError):
        ctypes.CDLL(None).signal(number, None)
        os.kill(os.getpid(), number)
    os._exit(128 + number)


class Signals:
    """Handles signals that end programs; `bottom` is the file whose frames run the script."""

    def __init__(
        self,
        bottom: str,
        engine: InScripts,
        finish: Callable[[signal.Signals], None],
        seal: Callable[[signal.Signals], object],
    ) -> None:
        self._engine = engine
        self.stopped_by = ""
        self.finishing = False  # the trace is being finished: later signals are ignored
        self._bottom = bottom
        self._finish, self._seal = finish, seal
        self.arrivals = Arrivals()
        self._process = os.getpid()
        self._waiting: dict[int, _Waiting] = {}
        self._unheard: Unheard | None = None

    def interrupt(self, number: int, frame: FrameType | None) -> None:
        """Ctrl-C: raises KeyboardInterrupt, as usual."""
        if os.getpid() == self._process and (
            self.finishing or self._later(number, frame, self.interrupt)
        ):
            return
        raise KeyboardInterrupt

    def terminate(self, number: int, frame: FrameType | None) -> None:
        """Finish the trace, then end by the signal."""
        if os.getpid() != self._process:  # a forked child, which ends as usual
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
            return
        if not self.finishing and self._later(number, frame, self.terminate):
            return
        if self._unheard is not None:
            self._unheard.wait(number, WRITES)
        if self.finishing:
            return
        self.finishing = True
        try:
            self._finish(signal.Signals(number))
        finally:
            die_of(number)

    def look(self) -> None:
        """End instead of a main thread that does not handle a signal; called periodically.

        Python handles signals between two instructions, and a wait for another rank is one.
        """
        for number in filter(self._ends_by, TERMINATING):
            if self._unheard is None:
                from gradscope.record.script.unheard import Unheard  # after the program has started

                self._unheard = Unheard()
            self._unheard.watch(number, own_get)
        for number in self.arrivals.overdue(TERMINATING):
            if not self._ends_by(number):
                continue
            self.finishing = True
            what = signal.Signals(number)
            sealing = threading.Thread(target=self._seal, args=(what,), daemon=True)
            sealing.start()
            sealing.join(AT_LAST)
            die_of(number)

    def _ends_by(self, number: int) -> bool:
        """Whether this signal ends the program now."""
        return not self.finishing and getattr(own_get(number), "handler", None) == self.terminate

    def stop(self, number: int, frame: FrameType | None) -> None:
        """End the script, by request or `--stop-on`, in the same way as `sys.exit`."""
        if os.getpid() == self._process and (
            self.finishing or self._later(number, frame, self.stop)
        ):
            return
        raise Stopped(self.stopped_by)

    def forget(self) -> None:
        """The process no longer ends by a signal that has arrived."""
        if self._unheard is not None:
            self._unheard.forget()

    def _later(self, number: int, frame: FrameType | None, handler: Handler) -> bool:
        """Whether this moment is not convenient, or the signal was repeated unnecessarily.

        Then `handler` will be called, or the signal sent again (see the Note above).
        """
        waiting = self._waiting.get(number)
        if waiting is None:
            waiting = self._waiting[number] = _Waiting(number, handler)
        if waiting.came_in_vain():
            return True
        if convenient(frame, self._bottom, self._engine, waiting.waited()):
            waiting.end()
            return False
        when_back = self._engine.when_back
        asked = when_back is not None and when_back(frame, waiting, number)
        waiting.wait(SOON if asked else AGAIN)
        return True


def convenient(frame: FrameType | None, bottom: str, engine: InScripts, waited: float) -> bool:
    """Whether a signal may interrupt the program here, after this many seconds."""
    if in_recorder(frame):
        return waited > LONGEST
    at_work = in_node = False
    evaluate, runs = engine.nodes_run_in
    innermost, called = True, ""
    while frame is not None:
        code = frame.f_code
        if code.co_filename == bottom:
            break
        if innermost and code.co_filename.startswith(engine.files):
            at_work = True
            in_node = in_node or (code.co_filename.startswith(evaluate) and called in runs)
        elif not is_below(code):
            innermost = False
        called = code.co_name
        frame = frame.f_back
    return not at_work or waited > AT_LAST or (in_node and waited > SOON)


@contextmanager
def handled(signals: Signals, stopper: signal.Signals | None = None) -> Iterator[None]:
    """A context in which unhandled signals are handled here; `stopper`: signal for --stop-on."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before: dict[int, Any] = {}

    def handle(number: int, handler: Handler) -> None:
        before[number] = own_set(number, Instead(own_get(number), handler))

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        handle(signal.SIGINT, signals.interrupt)
    for number in TERMINATING:
        if signal.getsignal(number) == signal.SIG_DFL and os.getpid() != FIRST:
            handle(number, signals.terminate)
    if stopper is not None:
        handle(stopper, signals.stop)
    _Handled.before = before
    _Handled.watch_forks()
    try:
        with signals.arrivals:
            yield
    finally:
        _Handled.before = {}
        for number, usual in before.items():
            own_set(number, usual)
        signals.forget()


class _Handled:
    """The signals that are handled here now, with their previous handlers.

    A forked child handles them as before from its start. It cannot do so from our handler: Python
    runs a handler in the interpreter's loop, which a child that waits for its parent may never
    reach.
    """

    before: ClassVar[dict[int, Any]] = {}
    watching = False

    @classmethod
    def watch_forks(cls) -> None:
        if not cls.watching and hasattr(os, "register_at_fork"):
            cls.watching = True
            os.register_at_fork(after_in_child=cls.in_child)

    @classmethod
    def in_child(cls) -> None:
        for number, usual in cls.before.items():
            if isinstance(own_get(number), Instead):
                own_set(number, usual)  # else the script has set a handler
