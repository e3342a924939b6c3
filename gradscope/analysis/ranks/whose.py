"""The rank of each row of a merged trace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

import numpy as np

from gradscope.analysis.lookups import Ids
from gradscope.trace.schema import NONE
from gradscope.trace.trace import Trace


class Owners:
    """Whose rows are whose, by the first id of each rank in a table, and the one after its last."""

    def __init__(self, ids: Sequence[Mapping[str, Sequence[int]]]) -> None:
        self.many = len(ids)
        self._ids = ids
        self._ranges: dict[str, tuple[Ids, Ids, Ids]] = {}

    def of(self, table: str, ids: Ids) -> Ids:
        """The index of the rank that each row belongs to; NONE where there is none."""
        if table not in self._ranges:
            ranges = [(*each[table], i) for i, each in enumerate(self._ids) if table in each]
            columns = np.array(sorted(ranges), np.int64).reshape(-1, 3).T
            self._ranges[table] = columns[0], columns[1], columns[2]
        first, end, index = self._ranges[table]
        if not len(first):
            return np.full(len(ids), NONE, np.int64)
        place = np.searchsorted(first, ids, "right") - 1
        return np.where((place >= 0) & (ids < end[place]), index[place], NONE)


class RankOf:
    """Looks up ranks by the ids of rows; a trace of one process has none."""

    def __init__(self, trace: Trace) -> None:
        facts = trace.meta.get("ranks", ())
        known = facts if len(facts) > 1 else ()
        self.numbers: tuple[int, ...] = tuple(each.get("rank", 0) for each in known)
        self._owners = Owners([each.get("ids", {}) for each in known])

    def of(self, table: str, ids: Ids) -> Ids:
        """The rank of each row of a table; NONE where it is unknown."""
        numbers = np.array((*self.numbers, NONE), np.int64)
        return numbers[self._owners.of(table, ids)]

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


FEW = 3
"""Number of ranks whose values are listed."""

OK = "ok"
WELL = (OK, "os._exit(0)")
"""Endings without an error."""


def endings(trace: Trace) -> dict[int, str]:
    """How each rank ended: "ok", or how it failed; "" if that is not known."""
    ranks = trace.meta.get("ranks", ())
    found = {each.get("rank", 0): str(each.get("exit", "")) for each in ranks}
    return {rank: OK if ending in WELL else ending for rank, ending in found.items()}


def listed(ranks: Sequence[int]) -> str:
    """As in "rank 1" or "ranks 0, 2 to 5"."""
    parts: list[str] = []
    for _, run in groupby(enumerate(sorted(ranks)), key=lambda each: each[1] - each[0]):
        numbers = [number for _, number in run]
        first, last = numbers[0], numbers[-1]
        parts += [f"{first} to {last}"] if last > first + 1 else map(str, numbers)
    return f"rank{'s' * (len(ranks) > 1)} {', '.join(parts)}"


def norms_in_words(norms: Mapping[int, float]) -> str:
    """As in "0.5 on rank 0, 2 on rank 1"; of many ranks the smallest and the largest."""
    shown = [f"{norm:.4g} on rank {rank}" for rank, norm in norms.items()]
    if len(shown) <= FEW:
        return ", ".join(shown)
    low, high = min(norms, key=norms.__getitem__), max(norms, key=norms.__getitem__)
    return f"from {norms[low]:.4g} on rank {low} to {norms[high]:.4g} on rank {high}"


def ranked(rank: int) -> str:
    """As in "rank 1, "; "" for NONE."""
    return "" if rank == NONE else f"rank {rank}, "
