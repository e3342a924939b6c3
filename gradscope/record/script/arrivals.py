"""Signals that have come while the main thread was in one long step, where Python handles none."""

from __future__ import annotations

import os
import socket
import struct
import time
from _signal import set_wakeup_fd  # type: ignore[import-not-found]
from collections.abc import Collection
from typing import ClassVar, Final, Self

LATE: Final = 0.4
"""Seconds after which a signal is overdue that nothing was called for."""

_CREDENTIALS = struct.Struct("3i")  # of a process: its number, its user's, its group's


class Wakes:
    """What Python writes to when a signal comes: gradscope's own, unless an event loop has one."""

    another: ClassVar[bool] = False  # then each signal counts, also one that comes again
    ours: ClassVar[int] = -1

    @classmethod
    def begin(cls) -> None:
        """See who has one."""
        there = set_wakeup_fd(-1)
        cls.another = there not in {-1, cls.ours}
        set_wakeup_fd(there, warn_on_full_buffer=cls.another)

    @classmethod
    def set(cls, descriptor: int, /, **more: bool) -> int:
        """`signal.set_wakeup_fd`, as the program finds it."""
        if descriptor == -1:
            before = set_wakeup_fd(cls.ours, warn_on_full_buffer=False)
        else:
            before = set_wakeup_fd(descriptor, **more)
        cls.another = descriptor != -1
        return -1 if before == cls.ours else before


class Arrivals:
    """Which signals have come to this process, and no handler of Python's was called.

    Python writes their numbers to a socket as they come. A forked child has the same socket, so
    Linux is asked for the number of the process, too.
    """

    heard: ClassVar[dict[int, float]] = {}
    """When a handler was called last, by signals' numbers."""

    def __init__(self) -> None:
        self._sockets: tuple[socket.socket, ...] = ()
        self._came: dict[int, float] = {}

    def __enter__(self) -> Self:
        if hasattr(socket, "SO_PASSCRED"):
            self._sockets = reads, writes = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
            reads.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
            for each in self._sockets:
                each.setblocking(False)
            Wakes.ours = writes.fileno()
            Wakes.set(-1)
        return self

    def __exit__(self, *_: object) -> None:
        if self._sockets:
            there = set_wakeup_fd(-1)
            if there != Wakes.ours:
                set_wakeup_fd(there)
            Wakes.ours = -1
            for each in self._sockets:
                each.close()
            self._sockets = ()

    def overdue(self, numbers: Collection[int]) -> list[int]:
        """Those of these that came a while ago, and were not handled since; to be asked often."""
        now = time.monotonic()
        for number in self._new():
            self._came.setdefault(number, now)
        waiting = {each: came for each, came in self._came.items() if each in numbers}
        self._came = {
            each: came
            for each, came in waiting.items()
            if self.heard.get(each, 0.0) < came - LATE  # it came a while before it was seen here
        }
        return [each for each, came in self._came.items() if now - came > LATE]

    def _new(self) -> list[int]:
        found: list[int] = []
        try:
            while self._sockets:
                number, more, *_ = self._sockets[0].recvmsg(1, socket.CMSG_SPACE(_CREDENTIALS.size))
                process, *_ = _CREDENTIALS.unpack(more[0][2])
                if process == os.getpid():
                    found.append(number[0])
        except OSError:  # there are no more, or this is over
            pass
        return found
