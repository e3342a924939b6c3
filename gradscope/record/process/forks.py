"""Python's warning about forks (3.12 and later), without gradscope's own threads.

# Note [Threads that a fork warns of]
Python warns about a fork in a process with several threads, and shows the line that called
`os.fork`. It would count gradscope's threads and show a line of gradscope. So the warning is
suppressed, and given again at the program's line if the program itself has several threads.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from types import FunctionType
from typing import Any

from gradscope.record.process.periodic_flush import Pulse
from gradscope.trace.file.background_write import PEN

WARNS = sys.version_info >= (3, 12)
SAYS = "This process (pid={}) is multi-threaded, use of {}() may lead to deadlocks in the child."
SOON = 0.001
"""Seconds until a thread that has just ended no longer exists."""


def without_warnings(fork: Callable[[], Any]) -> Callable[[], Any]:
    """The same function; Python does not warn if `__name__` is None, as during shutdown."""

    def call() -> Any:
        return fork()

    return FunctionType(call.__code__, {"__name__": None}, fork.__name__, None, call.__closure__)


def warn_of_threads(name: str) -> None:
    """Warn at the caller's caller, as Python does in the parent, if the program has threads."""
    if WARNS and _programs_threads() > 1:
        with suppress(DeprecationWarning):  # Python forgets it where warnings are errors
            warnings.warn(SAYS.format(os.getpid(), name), DeprecationWarning, stacklevel=3)


def _programs_threads() -> int:
    """Number of threads of this process, without gradscope's."""
    count = _threads()
    if count > 1:
        time.sleep(SOON)
        count = _threads()
    return count


def _threads() -> int:
    ours = sum(each.name == PEN for each in threading.enumerate())
    try:
        return len(os.listdir("/proc/self/task")) - ours - Pulse.running()  # noqa: PTH208
    except OSError:  # only on Linux; `threading` does not know the pulse thread
        return threading.active_count() - ours
