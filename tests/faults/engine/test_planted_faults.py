"""Faults planted in the engine, one at a time: the detectors catch every one."""

from __future__ import annotations

import pytest

from tests.faults.detectors import RECORDINGS
from tests.faults.faults import ENGINE
from tests.faults.noticing import ON_ENGINE, first_noticed


@pytest.mark.parametrize("name", ENGINE)
def test_a_fault_of_the_engine_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ENGINE[name](monkeypatch)
    assert first_noticed(ON_ENGINE | RECORDINGS), f"nobody noticed {name}"
