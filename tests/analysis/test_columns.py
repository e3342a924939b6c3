from __future__ import annotations

import numpy as np
from hypothesis import given, strategies as st

from gradscope.analysis.lookups import counts, links, paired, ranks

HUGE = 2**63 - 1
ids = st.lists(st.sampled_from([-1, 0, 1, 2, 7, HUGE]), max_size=12)
pairs = st.lists(st.tuples(st.sampled_from([-1, 0, 3, HUGE]), st.sampled_from([0, 1, HUGE])))


def array(values: list[int]) -> np.ndarray:
    return np.array(values, dtype=np.int64)


@given(ids)
def test_ranks_and_counts_are_those_of_a_loop(values: list[int]) -> None:
    assert ranks(array(values)).tolist() == [values[:i].count(v) for i, v in enumerate(values)]
    assert counts(array(values)).tolist() == [values.count(v) for v in values]


@given(pairs, pairs)
def test_pairs_are_found_as_by_a_loop(
    keys: list[tuple[int, int]], wanted: list[tuple[int, int]]
) -> None:
    def columns(rows: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
        return array([row[0] for row in rows]), array([row[1] for row in rows])

    found = paired(columns(keys), columns(wanted))

    assert found.tolist() == [keys.index(pair) if pair in keys else -1 for pair in wanted]


@given(st.lists(st.tuples(st.sampled_from([-1, 0, 1, HUGE]), st.sampled_from([-1, 0, 5]))))
def test_links_are_those_of_a_loop(edges: list[tuple[int, int]]) -> None:
    made = links(array([edge[0] for edge in edges]), array([edge[1] for edge in edges]))

    for node in (0, 1, 2, HUGE):
        expected = [to for source, to in edges if source == node and to != -1]
        assert list(made.of(node)) == expected
