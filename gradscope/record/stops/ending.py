"""How a script is ended from outside: as by `sys.exit`, at its next line.

# Note [How it ends]
There a trace function raises, as a debugger's would stop. Where the script has a trace function
itself, or its backwards run on another thread, or it was in none, a signal brings the word, which
waits for a convenient moment (script/signals.py).
"""

from __future__ import annotations

import _thread
import signal
import sys
import threading
from collections.abc import Callable
from types import CodeType, FrameType

SPARE = ("SIGUSR2", "SIGUSR1", "SIGPROF", "SIGVTALRM")
"""Signals of which the first that nobody handles brings the word to the main thread."""


def raised_at_next_line(error: BaseException, is_scripts: Callable[[CodeType], bool]) -> bool:
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
