"""Exceptions that a program's signal handler raises while gradscope's code is at work."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

import pytest

from gradscope.errors import is_the_programs, raise_later
from gradscope.record.script import signals
from gradscope.record.source import InScripts
from gradscope.watch.listener import Faults


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


def test_what_cannot_be_raised_at_once_is_raised_at_the_next_step() -> None:
    error = TimeOutError("later")

    def steps() -> None:
        raise_later(error)
        for _ in range(1000):
            own_fault.__name__.upper()

    with pytest.raises(TimeOutError, match="later") as caught:
        steps()

    assert caught.value is error
    assert is_the_programs(error)


def test_the_recorder_keeps_a_signal_waiting_for_half_a_second_at_most() -> None:
    engine = InScripts(staged=_nothing, explain=_nothing)
    code = compile("def at(look): return look()", f"{signals._RECORDER[0]}x.py", "exec")
    scope: dict[str, Any] = {}
    exec(code, scope)
    frame = scope["at"](lambda: sys._getframe(1))

    def may(waited: float) -> bool:
        return signals.convenient(frame, __file__, engine, waited)

    assert [may(0.0), may(0.1), may(0.5)] == [False, False, True]


def _nothing(*_: object) -> Any:
    return None
