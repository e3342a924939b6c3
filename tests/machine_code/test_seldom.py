"""What comes again and again is looked at a few times, and then seldom."""

from __future__ import annotations

import ctypes

from hypothesis import given, strategies as st

from gradscope.machine_code.language import Compiled
from gradscope.machine_code.seldom import MOST, Seldom, due

WORDS = (ctypes.c_int64,) * 4
COMPILED = Compiled([due])
COMPILED_DUE = ctypes.CFUNCTYPE(ctypes.c_int64, *WORDS)(COMPILED.address(due))


def test_a_thing_is_looked_at_four_times_and_then_when_it_has_come_twice_as_often() -> None:
    seldom = Seldom()

    looked = [time for time in range(1, 101) if seldom.due("line 3", 4)]

    assert looked == [1, 2, 3, 4, 8, 16, 32, 64]


@given(st.lists(st.tuples(*[st.integers(-2, 3)] * 3), max_size=60))
def test_compiled_it_counts_as_in_python(came: list[tuple[int, int, int]]) -> None:
    compiled, twin = Seldom(), Seldom()
    table = compiled.words.ctypes.data

    assert [COMPILED_DUE(table, *each) != 0 for each in came] == [twin.due(*each) for each in came]


def test_of_too_many_the_rest_is_counted_and_not_looked_at() -> None:
    compiled, twin = Seldom(), Seldom()
    table = compiled.words.ctypes.data
    many = [(line, 1, 1 << 40) for line in range(MOST + 3)]

    assert sum(COMPILED_DUE(table, *each) != 0 for each in many) == MOST
    assert sum(twin.due(*each) for each in many) == MOST
    assert compiled.in_vain == twin.in_vain == 3
