"""Which step was running at a time."""

from __future__ import annotations

from array import array
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, strategies as st

from gradscope.record.notes.positions import training_steps
from gradscope.record.notes.positions.contexts import Contexts
from gradscope.record.notes.positions.training_steps import Steps
from gradscope.trace.schema import NONE
from gradscope.trace.writer import MemoryWriter

TIMES = st.lists(st.integers(0, 50), max_size=20)


@given(TIMES, TIMES)
def test_the_last_step_that_began_by_then(begins: list[int], times: list[int]) -> None:
    steps = Steps.__new__(Steps)
    steps.recent = 0, array("q", sorted(begins))

    expected = [sum(begin <= t for begin in begins) + NONE for t in times]

    assert steps.at(np.array(times, np.int64)).tolist() == expected
    assert [int(steps.at(t)) for t in times] == expected


def test_only_recent_steps_are_kept_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training_steps, "RECENT", 4)
    engine = SimpleNamespace(local=None, contexts_name_steps=False, threads=list)
    contexts = Contexts(MemoryWriter(), 0, 0, cast("Any", engine), rank=0)
    steps = contexts.steps
    start = contexts.now()

    for number in range(1, 50):
        steps.begin(at=start + 10 * number)
        contexts.flush()

    before, moments = steps.recent
    assert before + len(moments) == 50
    assert 4 <= len(moments) <= 8
    times = np.array([start + 10 * number + 1 for number in (49, 47, before, before - 1)])
    assert steps.at(times).tolist() == [49, 47, before, NONE]
