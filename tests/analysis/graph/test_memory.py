"""Periods for which storages are held, against counting at each moment."""

from __future__ import annotations

import numpy as np
import pytest

from gradscope.analysis.graph.memory import SavedRows, over_time, periods
from gradscope.trace.schema import NONE


def any_rows(seed: int) -> SavedRows:
    chance = np.random.default_rng(seed)
    size = int(chance.integers(0, 14))
    holder = chance.integers(0, 4, size)
    begin = chance.integers(0, 30, size)
    end = np.where(chance.random(size) < 0.3, NONE, begin + chance.integers(1, 10, size))
    nothing = np.full(size, NONE)
    return SavedRows(holder, holder, np.array([7, 11, 13, 17])[holder], nothing, begin, end)


def held_at(rows: SavedRows, t: int) -> int:
    now = (rows.begin <= t) & ((rows.end == NONE) | (rows.end > t))
    sizes = dict(zip(rows.holder[now].tolist(), rows.bytes[now].tolist(), strict=True))
    return sum(sizes.values())


@pytest.mark.parametrize("seed", range(60))
def test_each_storage_counts_once_while_something_saves_it(seed: int) -> None:
    rows = any_rows(seed)
    found, over = periods(rows), over_time(rows)

    for t in range(45):
        within = (found.begin <= t) & ((found.end == NONE) | (found.end > t))
        assert int(found.bytes[within].sum()) == over.at(t) == held_at(rows, t)


def test_a_period_belongs_to_the_value_that_was_saved_first() -> None:
    rows = SavedRows(
        holder=np.array([5, 5, 5]),
        tensor=np.array([1, 1, 1]),
        bytes=np.array([8, 8, 8]),
        storage=np.array([8, 8, 8]),
        begin=np.array([3, 1, 9]),
        end=np.array([6, 4, NONE]),
    )
    found = periods(rows)

    assert found.row.tolist() == [1, 2]
    assert found.begin.tolist() == [1, 9]
    assert found.end.tolist() == [6, NONE]
    assert found.bytes.tolist() == [8, 8]


@pytest.mark.parametrize(("storage", "bytes"), [(360, 360), (NONE, 120), (900, 480)])
def test_views_of_one_storage_count_together_up_to_its_size(storage: int, bytes: int) -> None:
    """Query, key and value are views of one result. The query is saved twice.

    Views of a storage of unknown size may be of the same memory.
    """
    rows = SavedRows(
        holder=np.zeros(5, np.int64),
        tensor=np.array([1, 2, 3, 1, 4]),
        bytes=np.full(5, 120),
        storage=np.full(5, storage),
        begin=np.arange(5),
        end=np.full(5, 9),
    )

    assert periods(rows).bytes.tolist() == [bytes]
