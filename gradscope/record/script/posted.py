"""Exceptions that one thread raises in another: they find it in the program's own code.

`PyThreadState_SetAsyncExc`, by which libraries end a function that takes too long, raises between
any two of Python's steps, so also inside gradscope's own code: it would leave a note half taken.
So a thread that asks for one waits while the other is in code of ours, as signals wait
(handlers.py). Where it comes to our code all the same, out of a long step of PyTorch's, guards let
it through (errors.py).
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
"""Seconds after which the other thread is looked at again."""


def posting() -> Callable[[Any, Any], Any]:
    """The function in its place."""
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
