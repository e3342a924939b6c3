"""Signals that come while the main thread is in one long step."""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Iterator

import pytest

from gradscope.record.script import handlers as handlers_module
from gradscope.record.script.handlers import Arrivals, Handlers, Wakes

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux says who was signalled")


class Clock:
    now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(handlers_module, "time", clock)
    return clock


@pytest.fixture
def arrivals() -> Iterator[Arrivals]:
    before = signal.signal(signal.SIGUSR1, lambda *_: None)
    with Arrivals() as there:
        yield there
    signal.signal(signal.SIGUSR1, before)


def test_a_signal_is_overdue_that_no_handler_was_called_for(
    arrivals: Arrivals, clock: Clock
) -> None:
    signal.raise_signal(signal.SIGUSR1)

    assert arrivals.overdue([signal.SIGUSR1]) == []
    clock.now += 1
    assert arrivals.overdue([signal.SIGUSR1]) == [signal.SIGUSR1]
    Arrivals.heard[signal.SIGUSR1] = clock.now
    assert arrivals.overdue([signal.SIGUSR1]) == []


def test_a_signal_of_a_forked_child_is_none_of_ours(arrivals: Arrivals, clock: Clock) -> None:
    child = os.fork()
    if child == 0:
        signal.raise_signal(signal.SIGUSR1)
        os._exit(0)
    os.waitpid(child, 0)

    assert arrivals.overdue([signal.SIGUSR1]) == []
    clock.now += 1
    assert arrivals.overdue([signal.SIGUSR1]) == []


@pytest.mark.usefixtures("arrivals")
def test_an_event_loop_finds_no_descriptor_but_its_own() -> None:
    handlers = Handlers()
    handlers.watch()
    read, write = os.pipe()
    os.set_blocking(write, False)
    try:
        assert signal.set_wakeup_fd(write) == -1
        assert _another()
        signal.raise_signal(signal.SIGUSR1)
        assert os.read(read, 10) == bytes([signal.SIGUSR1])
        assert signal.set_wakeup_fd(-1) == write
        assert not _another()
        assert signal.set_wakeup_fd(-1) == -1
    finally:
        handlers.forget()
        os.close(read)
        os.close(write)


def _another() -> bool:
    return Wakes.another


def test_files_that_the_program_opens_in_place_of_closed_sockets_are_its_own() -> None:
    """A program may close all descriptors; what is opened then has the numbers of ours."""
    with Arrivals() as arrivals:
        numbers = [each.fileno() for each in arrivals._sockets]
        theirs, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        for number in numbers:
            os.dup2(theirs.fileno(), number)
        other.send(b"for the program")
        arrivals.overdue([signal.SIGUSR1])

    assert [os.fstat(number) for number in numbers] == [os.fstat(theirs.fileno())] * 2
    assert theirs.recv(99, socket.MSG_DONTWAIT) == b"for the program"
    for each in (theirs, other):
        each.close()
    for number in numbers:
        os.close(number)
