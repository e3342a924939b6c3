"""The state of the main thread, as seen by other threads after the end of the script.

Python marks its main thread as ended and then waits for the others: they may `join` it, or work
until it is no longer alive. Here that thread still finishes the trace, and may run other scripts
afterwards. So the mark is set while it waits, and removed afterwards.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def main_thread_has_ended() -> Iterator[None]:
    """A context in which `threading.main_thread()` has ended; no effect on other threads."""
    main: Any = threading.main_thread()
    if threading.current_thread() is not main or not main.is_alive():
        yield
        return
    restore = _mark(main) if sys.version_info < (3, 13) else _mark_handle(main)
    try:
        yield
    finally:
        restore()


def _mark(main: Any) -> Any:
    """Release the lock of the thread, as happens at the end of its thread state."""
    lock = main._tstate_lock
    if lock is None or not lock.locked():
        return lambda: None
    lock.release()
    main._stop()

    def restore() -> None:
        lock.acquire()  # threads that waited for it have released it at once
        main._tstate_lock, main._is_stopped = lock, False

    return restore


def _mark_handle(main: Any) -> Any:
    """Since Python 3.13 the thread has a handle, which cannot be reset, only replaced."""
    import _thread

    name = "_os_thread_handle" if hasattr(main, "_os_thread_handle") else "_handle"
    getattr(main, name)._set_done()

    def restore() -> None:
        fresh: Any = _thread
        setattr(main, name, fresh._make_thread_handle(threading.get_ident()))

    return restore
