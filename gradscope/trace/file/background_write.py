"""Writing to a file while the program continues."""

from __future__ import annotations

import errno
import os
import threading
import time
from contextlib import suppress
from queue import SimpleQueue
from typing import Final

from gradscope.errors import RecordingError, is_the_programs

LONG: Final = 1 << 16
"""Smallest number of bytes written by another thread: the system needs time to find memory."""
MOMENT: Final = 0.0005
PEN: Final = "gradscope pen"
"""Name of its thread."""


# Note [Descriptors are everybody's]
# A program may close all descriptors it does not know (`os.closerange(3, 256)`), as daemons do. The
# trace's is then closed, and the next file that is opened gets its number. So before a piece is
# written, we check which file the descriptor refers to; if it is another, we reopen the trace.


class Pen:
    """Writes pieces of a file, one at a time; long ones in a separate thread.

    A piece that cannot be written is cut off, `failure` says why, and no further piece is written.
    There are no locks here, so a signal handler may write, whatever it interrupts.
    """

    def __init__(self, file: int, path: str | os.PathLike[str] = "") -> None:
        self.failure: OSError | None = None
        self._file, self._path, self._identity = file, path, identity_of(file)
        self._pieces: SimpleQueue[tuple[int, bytes] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._closed = False
        self._left = self._done = 0  # pieces passed to the thread, and written by it

    def write(self, at: int, data: bytes) -> None:
        """Write this at this position, at some time before `wait` returns."""
        if self._closed:
            raise RecordingError(f"cannot write {len(data)} bytes to a trace that is closed")
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

    def close(self) -> None:
        """End the thread and close the file; nothing can be written any more."""
        self.wait()
        self._closed = True
        self._pieces.put(None)
        with suppress(OSError):
            if identity_of(self._file) == self._identity:
                os.close(self._file)

    def read(self, start: int, end: int) -> bytes:
        """What is in this part of the file. Raises OSError if the file is not at its path."""
        self.wait()
        with open(self._again(os.O_RDONLY), "rb") as file:  # noqa: PTH123  a descriptor
            file.seek(start)
            return file.read(end - start)

    def cut(self, size: int) -> None:
        """Truncate the file here."""
        os.ftruncate(self._open(), size)

    def _open(self) -> int:
        """The file's descriptor. See Note [Descriptors are everybody's]."""
        with suppress(OSError):
            if identity_of(self._file) == self._identity:
                return self._file
        self._file = self._again(os.O_WRONLY)
        return self._file

    def _again(self, flags: int) -> int:
        """A new descriptor of the file, if it is still at its path."""
        again = os.open(self._path, flags)
        if identity_of(again) != self._identity:
            os.close(again)
            raise OSError(errno.EBADF, "the program closed the trace file, and it no longer exists")
        return again

    def _has_thread(self) -> bool:
        if self._thread is None:
            thread = threading.Thread(target=self._work, name=PEN, daemon=True)
            with suppress(RuntimeError):  # the system cannot start a thread
                thread.start()
                self._thread = thread
        return self._thread is not None and self._thread.is_alive()

    def _work(self) -> None:
        while (piece := self._pieces.get()) is not None:
            self._write(*piece)
            self._done += 1

    def write_last(self, at: int, data: bytes) -> None:
        """Write this after a failure, if there is room for it."""
        self._put(at, data)

    def _write(self, at: int, data: bytes) -> None:
        if self.failure is None:
            self.failure = self._put(at, data)

    def _put(self, start: int, data: bytes) -> OSError | None:
        at, left = start, memoryview(data)
        try:
            file = self._open()
            while left:
                count = _write_at(file, left, at)
                at, left = at + count, left[count:]
        except OSError as error:
            if is_the_programs(error):  # a TimeoutError of a signal handler's
                raise
            with suppress(OSError):
                self.cut(start)
            return error
        return None


def _write_at(file: int, data: memoryview, at: int) -> int:
    if hasattr(os, "pwrite"):
        return os.pwrite(file, data, at)
    os.lseek(file, at, os.SEEK_SET)  # on Windows
    return os.write(file, data)


def identity_of(file: int) -> tuple[int, int]:
    """Which file a descriptor refers to now. See Note [Descriptors are everybody's]."""
    found = os.fstat(file)
    return found.st_dev, found.st_ino
