"""The rank of each row of a merged trace."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import numpy as np

from gradscope.analysis.lookups import Ids
from gradscope.trace.schema import NONE
from gradscope.trace.trace import Trace


class RankOf:
    """Looks up ranks by the ids of rows; a trace of one process has none."""

    def __init__(self, trace: Trace) -> None:
        facts = trace.meta.get("ranks", ())
        known = facts if len(facts) > 1 else ()
        self.numbers: tuple[int, ...] = tuple(each.get("rank", 0) for each in known)
        self._ids = [each.get("ids", {}) for each in known]

    def of(self, table: str, ids: Ids) -> Ids:
        """The rank of each row of a table; NONE where it is unknown."""
        found = np.full(len(ids), NONE, np.int64)
        for number, of_rank in zip(self.numbers, self._ids, strict=True):
            first, end = of_rank.get(table, (0, 0))
            found[(ids >= first) & (ids < end)] = number
        return found

    def one(self, table: str, id: int) -> int:
        """The rank of one row; NONE if it is unknown."""
        return int(self.of(table, np.array([id], np.int64))[0])

    def words(self, table: str, id: int) -> str:
        """As in "rank 1, ", before the name of a step or backward; "" if there is one process."""
        return ranked(self.one(table, id))


def on_ranks(trace: Trace) -> str:
    """As in " on 2 ranks", after the name of a step; "" in the trace of one process."""
    many = len(trace.once(RankOf).numbers)
    return f" on {many} ranks" if many else ""


def endings(trace: Trace) -> dict[int, str]:
    """How each rank ended: "ok", or how it failed; "" if that is not known."""
    ranks = trace.meta.get("ranks", ())
    return {each.get("rank", 0): str(each.get("exit", "")) for each in ranks}


def listed(ranks: Sequence[int]) -> str:
    """As in "rank 1" or "ranks 0, 2 to 5"."""
    parts: list[str] = []
    for _, run in groupby(enumerate(sorted(ranks)), key=lambda each: each[1] - each[0]):
        numbers = [number for _, number in run]
        first, last = numbers[0], numbers[-1]
        parts += [f"{first} to {last}"] if last > first + 1 else map(str, numbers)
    return f"rank{'s' * (len(ranks) > 1)} {', '.join(parts)}"


def ranked(rank: int) -> str:
    """As in "rank 1, "; "" for NONE."""
    return "" if rank == NONE else f"rank {rank}, "
