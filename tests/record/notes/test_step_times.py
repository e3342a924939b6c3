"""Which step was running at a time."""

from __future__ import annotations

from array import array

import numpy as np
from hypothesis import given, strategies as st

from gradscope.record.notes.positions.training_steps import Steps
from gradscope.trace.schema import NONE

TIMES = st.lists(st.integers(0, 50), max_size=20)


@given(TIMES, TIMES)
def test_the_last_step_that_began_by_then(begins: list[int], times: list[int]) -> None:
    steps = Steps.__new__(Steps)
    steps.moments = array("q", sorted(begins))

    expected = [sum(begin <= t for begin in begins) + NONE for t in times]

    assert steps.at(np.array(times, np.int64)).tolist() == expected
    assert [int(steps.at(t)) for t in times] == expected
