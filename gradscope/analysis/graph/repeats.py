"""Finds repetitions in a sequence: iterations of a loop, or equal blocks in a row."""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gradscope.analysis.lookups import Ids

LONGEST_PERIOD = 64
FEWEST = 3
"""Least number of iterations of a repetition."""


@dataclass(frozen=True, slots=True)
class Repeat:
    """A range of a sequence that consists of equal iterations."""

    first: int  # where the first iteration starts
    period: int  # number of elements of an iteration
    count: int

    @property
    def end(self) -> int:
        return self.first + self.period * self.count


def repeats(keys: Ids) -> list[Repeat]:
    """The repetitions of a sequence in order, not nested; the longest where several overlap.

    Among equally long ones the one with the shortest iterations.
    """
    if not len(keys) or np.unique(keys, return_counts=True)[1].max() < FEWEST:
        return []  # nothing occurs that often
    # Largest first, and what a chosen one leaves of the others is put back, by its new length.
    waiting = [_entry(first, end, period) for first, end, period in _runs(keys)]
    heapq.heapify(waiting)
    chosen: list[Repeat] = []
    starts: list[int] = []
    while waiting:
        _, period, first, end = heapq.heappop(waiting)
        place = bisect_left(starts, end)
        over = [each for each in chosen[max(0, place - 1) : place] if each.end > first]
        if not over:
            place = bisect_left(starts, first)
            chosen.insert(place, Repeat(first, period, (end - first) // period))
            starts.insert(place, first)
            continue
        for rest in ((first, over[0].first), (over[0].end, end)):
            if rest[1] - rest[0] >= FEWEST * period:
                heapq.heappush(waiting, _entry(*rest, period))
    return chosen


def _entry(first: int, end: int, period: int) -> tuple[int, int, int, int]:
    covered = (end - first) // period * period
    return -covered, period, first, end


def _runs(keys: Ids) -> Iterator[tuple[int, int, int]]:
    """For each period, the maximal ranges in which each element equals the one a period before."""
    for period in range(1, min(LONGEST_PERIOD, len(keys) // FEWEST) + 1):
        alike = np.concatenate(([False], keys[:-period] == keys[period:], [False]))
        edges = np.flatnonzero(alike[1:] != alike[:-1])
        first, last = edges[::2], edges[1::2]
        long = last - first >= (FEWEST - 1) * period
        for begin, end in zip(first[long].tolist(), last[long].tolist(), strict=True):
            yield begin, end + period, period
