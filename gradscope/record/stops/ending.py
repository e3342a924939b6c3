"""Ends a script from outside, at its next line, in the same way as `sys.exit`.

# Note [How it ends]
A trace function, such as debuggers use, raises at the next line. If the script has its own trace
function, or its backwards run on another thread, or it has no frame, a signal is used instead,
which waits for a convenient moment (script/signals.py).
"""

from __future__ import annotations

import _thread
import signal
import sys
import threading
from collections.abc import Callable
from types import CodeType, FrameType

SPARE = ("SIGUSR2", "SIGUSR1", "SIGPROF", "SIGVTALRM")
"""Signals of which the first unhandled one is used to reach the main thread."""


def raised_at_next_line(error: BaseException, is_scripts: Callable[[CodeType], bool]) -> bool:
    """Raise this at the next line of the innermost frame of the script; False: not possible.

    Only an error of the main thread ends a script. See Note [How it ends].
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
    """Do not trace functions that are called meanwhile."""


def spare_signal() -> signal.Signals | None:
    """A signal without a handler; None if there is none."""
    for name in SPARE:
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) == signal.SIG_DFL:
            return signal.Signals(number)
    return None


def tell_main_thread(number: signal.Signals) -> None:
    """Call the handler of this signal in the main thread, as if the signal had been sent."""
    _thread.interrupt_main(number)
