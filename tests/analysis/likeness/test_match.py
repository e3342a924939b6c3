"""The longest common subsequence, which pairs the nodes of two traces."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, strategies as st

from gradscope.analysis.likeness.match import MOST, common

sequences = st.lists(st.integers(0, 3), max_size=12)


def longest(one: list[int], other: list[int]) -> int:
    """Its length, by the table of all beginnings."""
    lengths = [[0] * (len(other) + 1) for _ in range(len(one) + 1)]
    for i, a in enumerate(one):
        for j, b in enumerate(other):
            more = max(lengths[i][j + 1], lengths[i + 1][j])
            lengths[i + 1][j + 1] = lengths[i][j] + 1 if a == b else more
    return lengths[-1][-1]


@given(one=sequences, other=sequences)
def test_pairs_are_equal_rise_on_both_sides_and_are_as_many_as_can_be(
    one: list[int], other: list[int]
) -> None:
    pairs = common(one, other)

    assert all(one[a] == other[b] for a, b in pairs)
    assert all(a < c and b < d for (a, b), (c, d) in pairwise(pairs))
    assert len(pairs) == longest(one, other)


def test_what_is_too_far_apart_is_paired_place_by_place() -> None:
    one, other = [0, 1] * MOST + [5], [2, 1] * MOST + [5]

    assert common(one, other) == [*((n, n) for n in range(1, 2 * MOST, 2)), (2 * MOST, 2 * MOST)]
