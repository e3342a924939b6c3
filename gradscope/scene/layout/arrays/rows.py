"""Assigns boxes to rows and columns."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import numpy as np

from gradscope.analysis.lookups import Ids
from gradscope.scene.layout.arrays.depths import depths
from gradscope.scene.layout.arrays.graph import Flat, Floats, starts_of, sums_in_runs
from gradscope.scene.layout.pieces import BETWEEN, ROW_GAP, WIDEST

SIDEWAYS = 1.6
"""Desired ratio of width to height of a picture."""
SHORTEST = 450.0
"""Least height of a column."""
CROWDED = 1.5
"""Factor by which links through a row make it wider."""


@dataclass(frozen=True, slots=True)
class LayoutRows:
    """The row of each box, and its index in the graph's order; the column of each row."""

    row: Ids
    order: Ids
    column: Ids


def rows_of(graph: Flat) -> LayoutRows:
    """Put each box below all boxes that lead to it, in rows and columns that suit a screen."""
    depth, order = depths(graph)
    row = _not_too_wide(graph, depth, order)
    heights = np.zeros(int(row.max(initial=-1)) + 1)
    np.maximum.at(heights, row, graph.heights)
    widths: Floats = np.bincount(row, graph.widths + BETWEEN).astype(np.float64)
    return LayoutRows(row, order, _columns(heights + ROW_GAP, widths, _leading_over(graph, row)))


def _not_too_wide(graph: Flat, depth: Ids, order: Ids) -> Ids:
    """The rows, with wide ones split into several."""
    sorted_ = np.lexsort((order, depth))
    first = starts_of(depth[sorted_])
    right = sums_in_runs(graph.widths[sorted_] + BETWEEN, first) + graph.widths[sorted_]
    line = (right // WIDEST).astype(np.int64)
    first[1:] |= line[1:] != line[:-1]
    row = np.empty(graph.boxes, np.int64)
    row[sorted_] = np.cumsum(first) - 1
    return row


def _leading_over(graph: Flat, row: Ids) -> Ids:
    """The number of links that reach each row from above."""
    rows = int(row.max(initial=-1)) + 2
    low, high = (
        np.minimum(row[graph.tails], row[graph.heads]),
        np.maximum(row[graph.tails], row[graph.heads]),
    )
    begun = np.bincount(low + 1, minlength=rows + 1) - np.bincount(high + 1, minlength=rows + 1)
    return np.cumsum(begun)


def _columns(heights: Floats, widths: Floats, over: Ids) -> Ids:
    """The column of each row. Each column is filled, and ends where the fewest links continue."""
    whole, wide = float(heights.sum()), CROWDED * float(widths.mean() if len(widths) else 0.0)
    tallest = whole / max(1, ceil(np.sqrt(SIDEWAYS * whole / max(wide, 1.0)))) * 1.1
    tallest = max(tallest, SHORTEST)
    bottom = np.cumsum(heights)
    column = np.zeros(len(heights), np.int64)
    first = number = 0
    while first < len(heights):
        top = bottom[first] - heights[first]
        end = max(int(np.searchsorted(bottom, top + tallest, "right")), first + 1)
        if end < len(heights):
            early = int(np.searchsorted(bottom, top + 0.75 * tallest, "right"))
            early = min(max(early, first + 1), end)
            end -= int(np.argmin(over[early : end + 1][::-1]))
        column[first:end] = number
        first, number = end, number + 1
    return column
