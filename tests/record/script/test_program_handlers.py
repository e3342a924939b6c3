"""Exceptions that a program's signal handler raises while gradscope's code is at work."""

from __future__ import annotations

import _thread
import os
import signal
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from gradscope.record.notes.sites import PACKAGE
from gradscope.record.script import signals
from gradscope.record.script.handlers import Handlers, Instead, Waits, own_get, own_set
from gradscope.record.source import InScripts
from gradscope.watch.in_place.faults import Faults
from tests.record.running import House


class TimeOutError(OSError):
    """Of a program's own, and of a kind that our code may catch."""


def keeps_the_frame(_number: int, _frame: FrameType | None) -> None:
    raise TimeOutError


def takes_anything(*_: object) -> None:
    raise TimeOutError


def lets_go(_number: int, frame: FrameType | None) -> None:
    del frame
    raise TimeOutError


class Handler:
    def __call__(self, *_: object) -> None:
        raise TimeOutError


@pytest.fixture(
    params=[keeps_the_frame, takes_anything, lets_go, Handler()],
    ids=lambda each: getattr(each, "__name__", "an object"),
)
def handled(request: pytest.FixtureRequest) -> Iterator[None]:
    before = signal.signal(signal.SIGUSR1, request.param)
    yield
    signal.signal(signal.SIGUSR1, before)


def interrupted() -> None:
    signal.raise_signal(signal.SIGUSR1)


def own_fault() -> None:
    raise ValueError("of ours")


@pytest.mark.usefixtures("handled")
def test_a_guard_lets_through_what_a_signal_handler_raised() -> None:
    faults = Faults()
    with pytest.raises(TimeOutError):
        faults.guarded("a node was made", interrupted)
    with pytest.raises(TimeOutError):
        faults.handing_on(interrupted)

    assert faults.texts == {}


@pytest.mark.usefixtures("handled")
def test_a_guard_holds_what_our_own_code_raised() -> None:
    faults = Faults()
    faults.guarded("a node was made", own_fault)

    assert faults.texts == {"a node was made: ValueError: of ours": 1}


def in_our_code(scope: dict[str, Any], text: str) -> Any:
    """What a text gives that is compiled as if it were the recorder's."""
    scope = dict(scope)
    exec(compile(text, os.path.join(PACKAGE, "record", "notes", "x.py"), "exec"), scope)  # noqa: PTH118
    return scope["at"]


@pytest.fixture
def handlers() -> Iterator[None]:
    ours = Handlers()
    ours.watch()
    yield
    ours.forget()


@pytest.mark.usefixtures("handlers", "handled")
def test_what_a_handler_raises_never_comes_out_in_the_middle_of_our_code() -> None:
    noted: list[int] = []
    send = partial(signal.raise_signal, signal.SIGUSR1)
    text = "def at():\n  send()\n  for k in range(20): noted.append(k)\n"
    at = in_our_code({"send": send, "noted": noted}, text)

    with pytest.raises(TimeOutError) as caught:
        at()
        signal.getsignal(signal.SIGUSR1)

    assert noted == list(range(20))
    assert "handlers.py" not in {Path(each.path).name for each in caught.traceback}


@pytest.mark.usefixtures("handlers", "handled")
def test_what_our_own_code_calls_of_the_programs_is_interrupted_at_once() -> None:
    def of_the_program() -> None:
        signal.raise_signal(signal.SIGUSR1)
        signal.getsignal(signal.SIGUSR1)

    went_on: list[int] = []
    text = "def at():\n  called()\n  went_on.append(1)\n"
    at = in_our_code({"called": of_the_program, "went_on": went_on}, text)

    with pytest.raises(TimeOutError):
        at()

    assert went_on == []


def test_a_signal_waits_for_our_code_for_half_a_second_at_most(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = iter([10.0, 10.2, 10.5, 10.6, 10.7])
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(_thread, "interrupt_main", lambda _: None)
    ran: list[int] = []

    def handler(number: int, _: object) -> None:
        ran.append(number)
        raise TimeOutError

    waits = Waits(signal.SIGUSR1, handler)
    at = in_our_code({"frame": sys._getframe}, "def at():\n  return frame(0)\n")()

    came = [len(ran) for _ in range(4) if waits(signal.SIGUSR1, at)]

    assert came == [0, 0, 1, 1]  # it runs, and what it raises comes out in the program's code
    with pytest.raises(TimeOutError):
        waits(signal.SIGUSR1, sys._getframe())
    assert len(ran) == 1


@pytest.fixture
def plain_signals(monkeypatch: pytest.MonkeyPatch) -> None:
    """What `signal` does without gradscope's own engine, which another test may have imported."""
    for name in ("signal", "getsignal"):
        function = getattr(signal, name)
        monkeypatch.setattr(signal, name, getattr(function, "__wrapped__", function))


@pytest.mark.usefixtures("plain_signals")
def test_the_program_sees_its_own_handlers() -> None:
    before = signal.signal(signal.SIGUSR1, keeps_the_frame)
    of_ours = own_set(signal.SIGUSR2, Instead(signal.SIG_DFL, keeps_the_frame))
    ours = Handlers()
    ours.watch()
    try:
        assert signal.getsignal(signal.SIGUSR1) is keeps_the_frame
        assert signal.signal(signal.SIGUSR1, lets_go) is keeps_the_frame
        assert signal.getsignal(signal.SIGUSR1) is lets_go
        assert type(own_get(signal.SIGUSR1)) is Waits
        assert signal.getsignal(signal.SIGUSR2) is signal.SIG_DFL
        assert signal.signal(signal.SIGUSR2, lets_go) is signal.SIG_DFL
        assert signal.signal(signal.SIGUSR2, signal.SIG_DFL) is lets_go
        assert type(own_get(signal.SIGUSR2)) is Instead
    finally:
        ours.forget()
        assert own_get(signal.SIGUSR1) is lets_go
        signal.signal(signal.SIGUSR1, before)
        own_set(signal.SIGUSR2, of_ours)


def test_the_recorder_keeps_a_signal_waiting_for_half_a_second_at_most() -> None:
    engine = InScripts(staged=_nothing, explain=_nothing)
    frame = in_our_code({"frame": sys._getframe}, "def at(): return frame(0)")()

    def may(waited: float) -> bool:
        return signals.convenient(frame, __file__, engine, waited)

    assert [may(0.0), may(0.1), may(0.5)] == [False, False, True]


def _nothing(*_: object) -> Any:
    return None


POSTED = """
import ctypes, threading, time, torch

class Late(Exception):
    pass

def post(thread):
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(Late))

def work():
    model = torch.nn.Sequential(*[torch.nn.Linear(4, 4) for _ in range(6)])
    arrived = 0
    for number in range(25):
        posts = threading.Timer(0.002 + 0.0007 * (number % 13), post, (threading.get_ident(),))
        end = time.monotonic() + 10
        try:
            posts.start()
            while time.monotonic() < end:
                model(torch.ones(2, 4)).sum().backward()
        except Late:
            arrived += 1
        posts.join()
    print(arrived, hasattr(ctypes.pythonapi.PyThreadState_SetAsyncExc, "argtypes"))

work()
thread = threading.Thread(target=work)
thread.start()
thread.join()
"""


@pytest.mark.torch
@pytest.mark.parametrize("level", ["graph", "engine", "full"])
def test_what_one_thread_raises_in_another_arrives(level: str, house: House) -> None:
    house.write(POSTED)

    ran = house.trace("--level", level, "script.py")

    assert (ran.code, ran.out) == (0, "25 True\n25 True\n")
    assert not [text for text in house.recorded().meta.get("unseen", ()) if "fault" in text]
    assert house.violations() == []
