"""Faults planted in the engine and the recorder, one at a time: the detectors catch every one."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable

import pytest

import gradscope.runtime as torch
from tests.faults.detectors import DETECTORS, RECORDINGS
from tests.faults.faults import ENGINE, RECORDER

PROGRAMS: dict[str, Callable[[], None]] = {
    **{name: lambda program=program: program(torch) for name, program in DETECTORS.items()},
    **RECORDINGS,
}


def first_noticed() -> str:
    """The first detector that notices something, on a thread of its own: what a fault leaves
    behind in a thread's state ends with it.
    """
    found: list[str] = []

    def look() -> None:
        for name, program in PROGRAMS.items():
            try:
                program()
            except (Exception, pytest.fail.Exception) as error:
                found.append(f"{name}: {error!r}")
                return

    with warnings.catch_warnings():
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
    return "".join(found)


def test_nothing_is_noticed_where_nothing_is_wrong() -> None:
    assert not first_noticed()


@pytest.mark.parametrize("name", ENGINE)
def test_a_fault_of_the_engine_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ENGINE[name](monkeypatch)
    assert first_noticed(), f"nobody noticed {name}"


@pytest.mark.parametrize("name", RECORDER)
def test_a_fault_of_the_recorder_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    RECORDER[name](monkeypatch)
    assert first_noticed(), f"nobody noticed {name}"
