"""Faults planted in the recorder, one at a time: the detectors catch every one."""

from __future__ import annotations

import pytest

from tests.faults.detectors import RECORDINGS
from tests.faults.faults import RECORDER
from tests.faults.noticing import ON_ENGINE, first_noticed


def test_nothing_is_noticed_where_nothing_is_wrong() -> None:
    assert not first_noticed(ON_ENGINE | RECORDINGS)


@pytest.mark.parametrize("name", RECORDER)
def test_a_fault_of_the_recorder_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    RECORDER[name](monkeypatch)
    assert first_noticed(RECORDINGS | ON_ENGINE), f"nobody noticed {name}"
