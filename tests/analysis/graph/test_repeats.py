from __future__ import annotations

import numpy as np
from hypothesis import given, strategies as st

from gradscope.analysis.graph.repeats import FEWEST, LONGEST_PERIOD, Repeat, repeats
from tests.shared.searching import searching


def repeats_in(text: str) -> list[Repeat]:
    return repeats(np.array([ord(letter) for letter in text], np.int64))


def test_turns_of_a_loop_are_found_with_what_stands_around_them() -> None:
    assert repeats_in("x" + "abc" * 5 + "yz") == [Repeat(1, 3, 5)]


def test_two_in_a_row_are_no_loop() -> None:
    assert repeats_in("abab") == []
    assert repeats_in("") == []


def test_the_longest_wins_and_others_keep_what_it_leaves() -> None:
    assert repeats_in("aaaa" + "ab" * 4) == [Repeat(0, 1, 4), Repeat(4, 2, 4)]
    assert repeats_in("aab" * 3) == [Repeat(0, 3, 3)]


def test_of_equally_long_ones_the_one_with_the_shortest_turns_is_taken() -> None:
    assert repeats_in("a" * 12) == [Repeat(0, 1, 12)]


def test_a_turn_that_was_not_finished_is_none() -> None:
    assert repeats_in("abcabcabcab") == [Repeat(0, 3, 3)]


def test_a_turn_longer_than_the_longest_period_is_not_looked_for() -> None:
    turn = "".join(chr(65 + place) for place in range(LONGEST_PERIOD + 1))

    assert repeats_in(turn * 3) == []
    assert repeats_in(turn[1:] * 3) == [Repeat(0, LONGEST_PERIOD, 3)]


@given(st.lists(st.integers(0, 2), max_size=60))
@searching(100)
def test_every_repeat_repeats_and_none_overlaps_another(keys: list[int]) -> None:
    end = 0
    for each in repeats(np.array(keys, np.int64)):
        turn = keys[each.first : each.first + each.period]
        assert each.first >= end
        assert each.count >= FEWEST
        assert keys[each.first : each.end] == turn * each.count
        end = each.end
