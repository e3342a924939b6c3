"""Who writes out the notes of a recording: one at a time, whatever interrupts whom."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock


class Alone:
    """Keeps others from what one thread is at."""

    def __init__(self) -> None:
        self._lock = RLock()
        self._taken = False

    @contextmanager
    def __call__(self, *, wait: bool) -> Iterator[bool]:
        """Whether this may go on alone.

        It may not while another thread is at it and this one does not `wait`, or while this thread
        is, further up: a hook, a finaliser or a signal handler interrupted it.
        """
        if not self._lock.acquire(blocking=wait):
            yield False
            return
        try:
            if self._taken:
                yield False
                return
            self._taken = True
            try:
                yield True
            finally:
                self._taken = False
        finally:
            self._lock.release()
