from __future__ import annotations

import numpy as np

from gradscope.trace.arrays import distinct, without

NONE = np.zeros(0, np.int64)


def test_distinct_values_rise_and_stand_once() -> None:
    assert distinct(np.array([7, -1, 7, 3, 3])).tolist() == [-1, 3, 7]
    assert distinct(NONE).tolist() == []


def test_values_without_others_rise_and_stand_once() -> None:
    values = np.array([9, 2, 2, 5, 1 << 40])

    assert without(values, np.array([5, 5, 6])).tolist() == [2, 9, 1 << 40]
    assert without(values, NONE).tolist() == [2, 5, 9, 1 << 40]
    assert without(NONE, values).tolist() == []
