"""Delays exceptions that one thread raises in another until that runs the program's own code.

Libraries end a function that takes too long with `PyThreadState_SetAsyncExc`. It raises an
exception between any two bytecode instructions, so also inside gradscope's code, where it would
leave a note incomplete. So the thread that calls it waits while the other thread is in our code, as
signals wait (handlers.py). If the exception is raised there nevertheless, after a long step of
PyTorch, guards let it through (errors.py).
"""

from __future__ import annotations

import ctypes
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from gradscope.record.script.our_code import LONGEST, in_recorder

NAME = "PyThreadState_SetAsyncExc"
STEP = 0.0002
"""Seconds after which the other thread is checked again."""


def posting() -> Callable[[Any, Any], Any]:
    """The replacement of the function."""
    own = getattr(ctypes.pythonapi, NAME)

    def post(thread: Any, exception: Any) -> Any:
        _wait(getattr(thread, "value", thread))
        return own(thread, exception)

    return post


def _wait(thread: int) -> None:
    until = time.monotonic() + LONGEST
    while thread != threading.get_ident() and time.monotonic() < until:
        if not in_recorder(sys._current_frames().get(thread)):
            return
        time.sleep(STEP)
