"""Which bit says that a tensor stands for a number; what else is in its word may be anything."""

from __future__ import annotations

import numpy as np
import pytest

NUMBER, LEFT_OVER, INTEGER, FLOAT = 1 << 47, 1 << 62, 4, 7


def looks(numbers: list[int], tensors: list[int]) -> np.ndarray:
    """Integers, floats, and tensors of either, with these bits besides their dtype's."""
    bits = [numbers, numbers, tensors, tensors]
    words = [
        [dtype | each for each in row]
        for dtype, row in zip([INTEGER, FLOAT] * 2, bits, strict=True)
    ]
    return np.array(words, np.int64)


@pytest.mark.torch
def test_what_was_there_before_is_told_from_the_bit_by_more_looks() -> None:
    from gradscope.watch.values.number_bit import _bit

    same = looks([NUMBER | LEFT_OVER] * 4, [0] * 4)
    other = looks([NUMBER] * 4, [0] * 4)

    assert _bit(other) == NUMBER
    assert _bit(same) == 0
    assert _bit(np.concatenate([same, other], axis=1)) == NUMBER


@pytest.mark.torch
def test_it_is_not_there_where_numbers_say_what_tensors_say() -> None:
    from gradscope.watch.values.number_bit import _bit

    assert _bit(looks([0] * 4, [0] * 4)) == 0
    assert _bit(looks([0] * 4, [NUMBER] * 4)) == 0
