"""Ends the process by a signal that Python never handles, as it would end without a recording.

# Note [A signal that nobody hears]
The function that Python sets for a signal only notes it: the handler is called later, by the main
thread. A main thread that waits in C and holds the GIL never calls it, nor can any other thread of
Python do anything. Without a recording, SIGTERM has no handler and ends such a process at once. So
machine code is called first: it starts a timer of the system, then calls Python's function. Our
handler starts the timer anew, with the time that finishing the trace may take. When the timer ends,
it sends the signal again, and the process ends by it. The trace has what was written until then.
"""

from __future__ import annotations

import ctypes
import platform
import signal
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from gradscope.machine_code.language import Address, Compiled, External, invoke, load, store
from gradscope.machine_code.loaded import PROCESS

PATIENCE = 5
"""Seconds in which a handler must be called."""

LISTED = {("linux", "x86_64")}
"""Where the layouts below are known."""

SIGNALS = 65
LOW, LOW_HALF, FROM_TIMER = 0x7F, 0xFFFFFFFF, 0xFFFFFFFE
TAKES_INFO, MONOTONIC = 4, 1

_state = np.zeros(2 * SIGNALS + 4, np.int64)
STATE = Address(_state.ctypes.data, "state_of_unheard")
TIMERS, NEXT, TIMES = (
    STATE,  # by signal
    STATE + 8 * SIGNALS,  # by signal, Python's function
    STATE + 16 * SIGNALS,  # of a timer: struct itimerspec
)
_state[-2] = PATIENCE

set_timer = External(PROCESS, "timer_settime", 4, half=True)
set_usual = External(PROCESS, "signal", 2)
send = External(PROCESS, "raise", 1, half=True)
error_place = External(PROCESS, "__errno_location", 0)


def signal_arrives(number: int, info: int, context: int) -> int:
    """Called by the system, in any thread, between any two instructions."""
    signal_number = number & LOW
    if load(info + 8) & LOW_HALF == FROM_TIMER and load(info + 24) == STATE:
        set_usual(signal_number, 0)
        send(signal_number)
        return 0
    place = error_place()
    error = load(place)
    set_timer(load(TIMERS + 8 * signal_number), 0, TIMES, 0)
    store(place, error)
    invoke(load(NEXT + 8 * signal_number), signal_number)
    return 0


class _Action(ctypes.Structure):
    """struct sigaction."""

    _fields_ = (
        ("function", ctypes.c_void_p),
        ("mask", ctypes.c_uint8 * 128),
        ("flags", ctypes.c_int),
        ("restorer", ctypes.c_void_p),
    )


class _Notice(ctypes.Structure):
    """struct sigevent, for a timer that sends a signal."""

    _fields_ = (
        ("value", ctypes.c_void_p),
        ("signal", ctypes.c_int),
        ("how", ctypes.c_int),
        ("more", ctypes.c_uint8 * 48),
    )


class Unheard:
    """Puts machine code before Python's functions for some signals."""

    def __init__(self) -> None:
        self._timers: dict[int, int] = {}

    def watch(self, number: int, usual: Callable[[int], Any]) -> None:
        """Put it before that of a signal, if it is not there. `usual`: what Python has set now."""
        action, ours, before = _Action(), _function(), usual(number)
        if not ours or not callable(before):
            return
        PROCESS.sigaction(number, None, ctypes.byref(action))
        if action.flags & TAKES_INFO:  # ours, or the C handler of a library
            return
        if number not in self._timers:
            timer, notice = ctypes.c_void_p(), _Notice(int(STATE), number)
            if PROCESS.timer_create(MONOTONIC, ctypes.byref(notice), ctypes.byref(timer)):
                return
            self._timers[number] = _state[number] = timer.value or 0
        _state[SIGNALS + number], action.function = action.function or 0, ours
        action.flags |= TAKES_INFO
        PROCESS.sigaction(number, ctypes.byref(action), None)
        now = usual(number)
        if now is not before:  # the program has set another one meanwhile
            pythons = int(_state[SIGNALS + number])
            action.function = pythons if callable(now) else int(now == signal.SIG_IGN)
            action.flags &= ~TAKES_INFO
            PROCESS.sigaction(number, ctypes.byref(action), None)

    def wait(self, number: int, seconds: int) -> None:
        """Called by a handler: the process ends by this signal after this many seconds."""
        if number in self._timers:
            times = (ctypes.c_int64 * 4)(0, 0, seconds, 0)
            PROCESS.timer_settime(ctypes.c_void_p(self._timers[number]), 0, times, None)

    def forget(self) -> None:
        """The process no longer ends by a signal that has arrived."""
        for number in self._timers:
            self.wait(number, 0)


_owned: list[Compiled] = []  # as long as Python runs: the system may call it


@cache
def _function() -> int:
    """The address of the machine code; 0: there is none on this machine."""
    if (sys.platform, platform.machine()) not in LISTED:
        return 0
    try:
        compiled = Compiled([signal_arrives])
    except (ImportError, OSError, MemoryError, RuntimeError):
        return 0
    _owned.append(compiled)
    return compiled.address(signal_arrives)
