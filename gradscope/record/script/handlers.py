"""Runs signal handlers of the program only in its own code, never in the middle of recording.

# Note [When a handler runs]
Python runs a handler between any two bytecode instructions, so also inside gradscope's code. An
exception raised there, such as a time-out by SIGALRM, would leave a note incomplete, and could be
swallowed by a guard for faults of ours. So each handler is set inside a `Waits`, which repeats the
signal while our code is innermost: Python checks again a few instructions later. Code that takes
longer is interrupted, and an exception of the handler is held until it has finished. The program
sees its own handler wherever it asks for it.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import _thread
import ctypes
import os
import signal
import socket
import struct
import threading
import time
from collections.abc import Callable, Collection
from functools import partial
from types import FrameType
from typing import Any, ClassVar, Self

from gradscope.errors import leave_no_frame
from gradscope.record.script.our_code import LONGEST, in_recorder
from gradscope.record.script.posted import NAME, posting
from gradscope.trace.file.background_write import identity_of
from gradscope.watch.in_place.standing_in import Replaced

AT_LAST = 60.0
"""Longest time in seconds that an exception of a handler waits."""

Handler = Callable[[int, "FrameType | None"], object]


_CREDENTIALS = struct.Struct("3i")  # of a process: process id, user id, group id


class Wakes:
    """The descriptor Python writes to on a signal: ours, unless an event loop has set one."""

    another: ClassVar[bool] = False  # then every signal counts, including repeated ones
    ours: ClassVar[int] = -1

    @classmethod
    def begin(cls) -> None:
        """Check whether an event loop has set one."""
        there = own_wakes(-1)
        cls.another = there not in {-1, cls.ours}
        own_wakes(there, warn_on_full_buffer=cls.another)

    @classmethod
    def set(cls, descriptor: int, /, **more: bool) -> int:
        """Replaces `signal.set_wakeup_fd` for the program."""
        if descriptor == -1:
            before = own_wakes(cls.ours, warn_on_full_buffer=False)
        else:
            before = own_wakes(descriptor, **more)
        cls.another = descriptor != -1
        return -1 if before == cls.ours else before


class Arrivals:
    """Signals that this process has received and for which no Python handler was called.

    Python writes their numbers to a socket when they arrive. A forked child has the same socket, so
    the process id is also requested from Linux.
    """

    heard: ClassVar[dict[int, float]] = {}
    """When a handler was last called, by signal number."""

    def __init__(self) -> None:
        self._sockets: tuple[socket.socket, ...] = ()
        self._identities: list[tuple[int, int]] = []
        self._came: dict[int, float] = {}

    def __enter__(self) -> Self:
        if hasattr(socket, "SO_PASSCRED"):
            self._sockets = reads, writes = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
            reads.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
            for each in self._sockets:
                each.setblocking(False)
            self._identities = [identity_of(each.fileno()) for each in self._sockets]
            Wakes.ours = writes.fileno()
            Wakes.set(-1)
        return self

    def __exit__(self, *_: object) -> None:
        if self._sockets:
            there = own_wakes(-1)
            if there != Wakes.ours:
                own_wakes(there)
            Wakes.ours = -1
            for each, identity in zip(self._sockets, self._identities, strict=True):
                if is_still(each, identity):
                    each.close()
                else:
                    each.detach()
            self._sockets = ()

    def overdue(self, numbers: Collection[int]) -> list[int]:
        """The signals that have been unhandled for a while; must be called often."""
        now = time.monotonic()
        for number in self._new():
            self._came.setdefault(number, now)
        waiting = {each: came for each, came in self._came.items() if each in numbers}
        self._came = {
            each: came
            for each, came in waiting.items()
            if self.heard.get(each, 0.0) < came - LONGEST  # it arrived long before it was read
        }
        return [each for each, came in self._came.items() if now - came > LONGEST]

    def _new(self) -> list[int]:
        found: list[int] = []
        try:
            while self._sockets and is_still(self._sockets[0], self._identities[0]):
                number, more, *_ = self._sockets[0].recvmsg(1, socket.CMSG_SPACE(_CREDENTIALS.size))
                process, *_ = _CREDENTIALS.unpack(more[0][2])
                if process == os.getpid():
                    found.append(number[0])
        except OSError:  # there are no more, or the socket is closed
            pass
        return found


def is_still(of_ours: socket.socket, identity: tuple[int, int]) -> bool:
    """Whether its descriptor still refers to it. See Note [Descriptors are everybody's]."""
    try:
        return identity_of(of_ours.fileno()) == identity
    except OSError:
        return False


class Instead:
    """A handler that is set instead of `known`, which the program sees."""

    def __init__(self, known: Any, handler: Handler) -> None:
        self.known = known
        self.handler = handler

    def __call__(self, number: int, frame: FrameType | None) -> object:
        Arrivals.heard[number] = time.monotonic()
        return self.handler(number, frame)


class Waits(Instead):
    """A handler of the program that waits while our code is running."""

    def __init__(self, number: int, handler: Handler) -> None:
        super().__init__(handler, handler)
        # Python drops the result of a handler after its last instruction, so that the signal cannot
        # interrupt the handler itself.
        again = staticmethod(partial(_thread.interrupt_main, number))  # type: ignore[arg-type]
        self._comes_again: type = type("Dropped", (), {"__slots__": (), "__del__": again})
        self._since: float | None = None  # when the waiting signal arrived
        self._raised: BaseException | None = None  # by the handler, inside our code

    def __call__(self, number: int, frame: FrameType | None) -> object:
        Arrivals.heard[number] = now = time.monotonic()
        waited = now - (self._since or now)
        in_ours = in_recorder(frame) and not Wakes.another
        if in_ours and waited < LONGEST:
            return self._later(now)
        if self._raised is None:
            try:
                self.handler(number, frame)
            except BaseException as error:
                leave_no_frame(error)
                if not in_ours:
                    self._since = None
                    raise
                self._raised = error
        raised = self._raised
        if raised is not None and in_ours and waited < AT_LAST:
            return self._later(now)
        self._since = self._raised = None
        if raised is not None:
            raise raised
        return None

    def _later(self, now: float) -> object:
        self._since = self._since or now
        return self._comes_again()


class Handlers:
    """Sets handlers inside a `Waits` while watching; the program sees its own."""

    def __init__(self) -> None:
        self._replaced = Replaced()
        self._ours: dict[int, Instead] = {}  # what gradscope handles itself

    def watch(self) -> None:
        """Start; signals only in the thread that may set handlers."""
        if self._replaced.there:
            return
        self._replaced.put(ctypes.pythonapi, NAME, posting())
        if not _may_set():
            return
        for number in _signal.valid_signals():
            handler = own_get(number)
            if isinstance(handler, Instead):
                self._ours[number] = handler
            elif _is_programs(handler):
                own_set(number, Waits(number, handler))
        self._replaced.put(_signal, "signal", self._set)
        self._replaced.put(_signal, "getsignal", self._get)
        Wakes.begin()
        self._replaced.put(_signal, "set_wakeup_fd", Wakes.set)
        self._replaced.put_as_it_is(signal, "set_wakeup_fd", _signal.set_wakeup_fd)

    def forget(self) -> None:
        """Restore the handlers that the program knows."""
        self._replaced.take_back()
        for number in _signal.valid_signals() if _may_set() else ():
            handler = own_get(number)
            if isinstance(handler, Waits):
                own_set(number, handler.known)

    def _set(self, number: Any, handler: Any) -> Any:
        ours = self._ours.get(number)
        if ours is not None and handler == ours.known:
            handler = ours
        elif _is_programs(handler):
            handler = Waits(number, handler)
        return _known(own_set(number, handler))

    def _get(self, number: Any) -> Any:
        return _known(own_get(number))


def silence() -> None:
    """Remove timers and handlers of the script after its end: only gradscope still runs."""
    if not _may_set():
        return
    if hasattr(signal, "setitimer"):  # not on Windows
        for timer in (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF):
            signal.setitimer(timer, 0)
    for number in _signal.valid_signals():
        if isinstance(own_get(number), Waits):
            own_set(number, lambda *_: None)


def _is_programs(handler: Any) -> bool:
    """Whether it is a function that does not wait already, as those on gradscope's engine do."""
    return callable(handler) and not type(handler).__module__.startswith("gradscope.")


def _known(handler: Any) -> Any:
    """The handler that the program knows."""
    return handler.known if isinstance(handler, Instead) else handler


def _may_set() -> bool:
    return threading.current_thread() is threading.main_thread()


own_set, own_get, own_wakes = _signal.signal, _signal.getsignal, _signal.set_wakeup_fd
