"""Writing to a file while the program goes on."""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from queue import SimpleQueue
from typing import Final

LONG: Final = 1 << 16
"""So many bytes are worth another thread: the system takes its time to find memory for them."""
MOMENT: Final = 0.0005


class Pen:
    """Writes pieces of a file, one at a time; long ones in a thread of its own.

    A piece that cannot be written is cut off, and `failure` says why; no other is written then.
    Nobody waits on a lock here, so a signal handler may write, too, whatever it interrupts.
    """

    def __init__(self, file: int) -> None:
        self.failure: OSError | None = None
        self._file = file
        self._pieces: SimpleQueue[tuple[int, bytes]] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._left = self._done = 0  # how many pieces were left to the thread, and were written

    def write(self, at: int, data: bytes) -> None:
        """Write this at this place, at some time before `wait` returns."""
        if len(data) < LONG or not self._has_thread():
            self.wait()
            self._write(at, data)
            return
        self._left += 1
        self._pieces.put((at, data))

    def wait(self) -> None:
        """Wait until everything is in the file."""
        while self._done < self._left and self._thread is not None and self._thread.is_alive():
            time.sleep(MOMENT)

    def _has_thread(self) -> bool:
        if self._thread is None:
            thread = threading.Thread(target=self._work, name="gradscope pen", daemon=True)
            with suppress(RuntimeError):  # the system has none to give
                thread.start()
                self._thread = thread
        return self._thread is not None and self._thread.is_alive()

    def _work(self) -> None:
        while True:
            self._write(*self._pieces.get())
            self._done += 1

    def _write(self, at: int, data: bytes) -> None:
        if self.failure is not None:
            return
        start, left = at, memoryview(data)
        try:
            while left:
                count = os.pwrite(self._file, left, at)
                at, left = at + count, left[count:]
        except OSError as error:
            self.failure = error
            with suppress(OSError):
                os.ftruncate(self._file, start)
