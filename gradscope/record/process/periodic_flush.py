"""Writes notes periodically, even if the program computes for a long time."""

from __future__ import annotations

import _thread
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import ClassVar, Final
from weakref import WeakSet

PERIOD: Final = 0.25
"""Seconds between two beats."""
PATIENCE: Final = 1.0
SOON: Final = 0.0001

# Note [Not one of the script's threads]
# Notes are written at certain events: at the end of a backward, at a step, after a number of calls.
# A program that computes slowly, or sleeps, has no such events, and its last actions would be lost
# if it was killed. So a thread writes them every PERIOD. Scripts count their threads and wait for
# them, so `threading` does not know this one. A fork waits until it has ended, also for the system:
# Python 3.12 warns of a fork if the system counts more than one thread.


class Pulse:
    """Calls `beat` every `PERIOD` until it is stopped, in a separate thread."""

    _all: ClassVar[WeakSet[Pulse]] = WeakSet()

    def __init__(self, beat: Callable[[], None]) -> None:
        self._beat = beat
        self._stop = self._stopped = _thread.allocate_lock()
        self._running = False
        self._thread = 0  # the system's number of the thread
        Pulse._all.add(self)

    def start(self) -> None:
        """Start, if the system can start a thread."""
        self._stop, self._stopped = _thread.allocate_lock(), _thread.allocate_lock()
        self._stop.acquire()
        self._stopped.acquire()
        with suppress(RuntimeError), signals_blocked():
            _thread.start_new_thread(self._work, (self._stop, self._stopped))
            self._running = True

    def stop(self) -> bool:
        """Stop, and wait for a running beat. False: it still runs."""
        if not self._running:
            return True
        self._running = False
        self._stop.release()
        return self._stopped.acquire(timeout=PATIENCE)  # it may wait for a lock of this thread

    def _work(self, stop: _thread.LockType, stopped: _thread.LockType) -> None:
        self._thread = _thread.get_native_id()
        try:
            while not stop.acquire(timeout=PERIOD):
                self._beat()
        finally:
            stopped.release()

    @classmethod
    def rest_all(cls) -> None:
        """Before a fork."""
        cls._rested = [pulse for pulse in cls._all if pulse._running]
        for pulse in cls._rested:
            if pulse.stop():
                wait_until_gone(pulse._thread)

    @classmethod
    def resume_all(cls) -> None:
        """After a fork, in the parent."""
        for pulse in cls._rested:
            pulse.start()

    @classmethod
    def running(cls) -> int:
        """Number of threads."""
        return sum(pulse._running for pulse in cls._all)

    _rested: ClassVar[list[Pulse]] = []


def wait_until_gone(thread: int) -> None:
    """Wait until the system has ended a thread that is about to end; not where it does not say."""
    until = time.monotonic() + PATIENCE
    while Path(f"/proc/self/task/{thread}").exists() and time.monotonic() < until:
        time.sleep(SOON)


@contextmanager
def signals_blocked() -> Iterator[None]:
    """A context in which new threads receive no signals: these are for the script's threads."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=Pulse.rest_all, after_in_parent=Pulse.resume_all)
