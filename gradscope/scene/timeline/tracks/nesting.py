"""Slices put into lanes in which each is either nested in another one, or apart from it.

Viewers stack the slices of a lane, so two slices that overlap need different lanes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gradscope.analysis.lookups import Ids
from gradscope.scene.timeline.tracks.slices import Slices
from gradscope.trace.arrays import distinct
from gradscope.trace.schema import NONE

MOST_LANES = 64
"""Largest number of lanes of one thread; further slices, as of a damaged trace, are left out."""


@dataclass(frozen=True, slots=True)
class NestedSlices:
    """Slices of one thread that nest."""

    thread: int
    number: int  # 0 for the first of its thread
    turns: Ids  # places of slices as they begin; as they end, less than 0: -1 - place


def ends_of(slices: Slices, last: int) -> Ids:
    """The end of each slice; without one, the start of the next slice of its thread, or `last`.

    The next slice is one that cannot be inside it: after a node another node, no operation.
    """
    found = slices.end.copy()
    for place in np.flatnonzero(slices.end == NONE).tolist():
        sort, begin = slices.sort[place], slices.begin[place]
        after = (slices.thread == slices.thread[place]) & (slices.sort <= sort)
        after &= slices.begin > begin
        found[place] = slices.begin[after].min() if after.any() else last
    return found


def lanes_of(slices: Slices, last: int) -> tuple[list[NestedSlices], int]:
    """The lanes by thread, and the number of slices left out. Open slices end at `last`."""
    end = np.maximum(np.where(slices.end < slices.begin, last, slices.end), slices.begin)
    found: list[NestedSlices] = []
    left = 0
    for thread in distinct(slices.thread).tolist():
        mine = np.flatnonzero(slices.thread == thread)
        order = mine[np.lexsort((slices.sort[mine], -end[mine], slices.begin[mine]))]
        turns, without = _nest(order, slices.begin, end)
        found += [
            NestedSlices(thread, number, np.array(each, np.int64))
            for number, each in enumerate(turns)
        ]
        left += without
    return found, left


def _nest(order: Ids, begin: Ids, end: Ids) -> tuple[list[list[int]], int]:
    turns: list[list[int]] = [[]]
    open_slices: list[list[tuple[int, int]]] = [[]]  # by lane: when each ends, and its place
    left = 0
    rows = zip(order.tolist(), begin[order].tolist(), end[order].tolist(), strict=True)
    for place, since, until in rows:
        for lane, stack in enumerate(open_slices):
            while stack and stack[-1][0] <= since:
                turns[lane].append(-1 - stack.pop()[1])
            if not stack or until <= stack[-1][0]:
                break
        else:
            if len(turns) == MOST_LANES:
                left += 1
                continue
            lane, stack = len(turns), []
            turns.append([])
            open_slices.append(stack)
        stack.append((until, place))
        turns[lane].append(place)
    for lane, stack in enumerate(open_slices):
        while stack:
            turns[lane].append(-1 - stack.pop()[1])
    return turns, left
