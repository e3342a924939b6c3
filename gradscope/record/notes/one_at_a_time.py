"""Ensures that one thread at a time writes the notes of a recording."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock


class Alone:
    """A lock that detects interruptions of the thread that holds it."""

    def __init__(self) -> None:
        self._lock = RLock()
        self._taken = False

    @contextmanager
    def __call__(self, *, wait: bool) -> Iterator[bool]:
        """Whether this thread may continue.

        It may not while another thread holds the lock and this one does not `wait`, or while this
        thread holds it in an outer call that a hook, finaliser or signal handler interrupted.
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
