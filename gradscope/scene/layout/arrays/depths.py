"""Computes how far below the top each box is."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gradscope.analysis.lookups import Ids
from gradscope.scene.layout.arrays.graph import Flat


def depths(graph: Flat) -> tuple[Ids, Ids]:
    """The depth of each box on the longest path, and its index in an order from top to bottom.

    Connected components are placed below one another. A cycle is cut at its first box.
    """
    onward = _Onward(graph)
    coming = np.bincount(graph.heads, minlength=graph.boxes).tolist()
    order, found = _levels(onward, coming)
    place = np.empty(graph.boxes, np.int64)
    place[order] = np.arange(graph.boxes)
    depth = np.array(found, np.int64)
    if coming.count(0) > 1:
        depth = _lowered(order, onward, coming, found)
        depth = _one_below_another(_hanging_together(graph), depth)
    return depth, place


class _Onward:
    """The targets of each box: `heads[begin[box] : begin[box + 1]]`."""

    def __init__(self, graph: Flat) -> None:
        by_tail = np.argsort(graph.tails, kind="stable")
        self.heads: list[int] = graph.heads[by_tail].tolist()
        bounds = np.arange(graph.boxes + 1)
        self.begin: list[int] = np.searchsorted(graph.tails[by_tail], bounds).tolist()


def _levels(onward: _Onward, coming: Sequence[int]) -> tuple[list[int], list[int]]:
    """All boxes from top to bottom; and for each the length of the longest path to it."""
    heads, begin = onward.heads, onward.begin
    missing, depth = list(coming), [0] * len(coming)
    order: list[int] = []
    found = [box for box, number in enumerate(missing) if not number]
    cut = 0
    while True:
        for box in found:  # the list grows meanwhile
            for other in heads[begin[box] : begin[box + 1]]:
                missing[other] -= 1
                if not missing[other]:
                    depth[other] = depth[box] + 1
                    found.append(other)
        order += found
        if len(order) == len(depth):
            return order, depth
        while missing[cut] <= 0:
            cut += 1
        missing[cut] = 0  # all remaining boxes are on a cycle, or below one
        depth[cut] = depth[order[-1]] + 1 if order else 0
        found = [cut]


def _lowered(order: Sequence[int], onward: _Onward, coming: Sequence[int], depth: list[int]) -> Ids:
    """Move boxes with at most as many incoming as outgoing links down to their targets."""
    heads, begin = onward.heads, onward.begin
    for box in reversed(order):
        others = heads[begin[box] : begin[box + 1]]
        if others and coming[box] <= len(others):
            lowest = min([depth[other] for other in others]) - 1
            depth[box] = max(depth[box], lowest)
    return np.array(depth, np.int64)


def _hanging_together(graph: Flat) -> Ids:
    """A number for the connected component of each box."""
    root = list(range(graph.boxes))
    for tail, head in zip(graph.tails.tolist(), graph.heads.tolist(), strict=True):
        one, other = tail, head
        while root[one] != one:
            root[one] = one = root[root[one]]
        while root[other] != other:
            root[other] = other = root[root[other]]
        if one != other:
            root[max(one, other)] = min(one, other)
    found = np.array(root, np.int64)
    while not np.array_equal(found, found[found]):
        found = found[found]
    return found


def _one_below_another(together: Ids, depth: Ids) -> Ids:
    """The depths, when each component begins below the one before."""
    kinds, component = np.unique(together, return_inverse=True)
    first = np.full(len(kinds), np.iinfo(np.int64).max)
    last = np.zeros(len(kinds), np.int64)
    np.minimum.at(first, component, depth)
    np.maximum.at(last, component, depth)
    tall = last - first + 1
    found: Ids = depth + (np.cumsum(tall) - tall - first)[component]
    return found
