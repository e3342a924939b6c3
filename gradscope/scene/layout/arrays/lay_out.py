"""Lays out a large picture without frames."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gradscope.analysis.lookups import Ids
from gradscope.scene.layout.arrays.graph import Flat, Floats, starts_of
from gradscope.scene.layout.arrays.parts import LayoutParts, Stubs, parts_of
from gradscope.scene.layout.arrays.places import PartPlaces
from gradscope.scene.layout.arrays.rows import rows_of
from gradscope.scene.layout.pieces import ROW_GAP, UNDER_LABEL

BETWEEN_COLUMNS = 34.0
BENT, MOST_BENT = 0.06, 26.0
"""Additional height of a row below which links go far to the side."""


@dataclass(frozen=True, slots=True)
class Laid:
    """The positions of everything, with a corner at (0, 0)."""

    width: float
    height: float
    x: Floats  # of boxes, then of stubs
    y: Floats
    stubs: Stubs
    stub_widths: Floats
    points: Floats  # of all paths, two numbers per point
    begins: Ids  # by path: its first point
    link: Ids  # by path
    to_stub: Ids  # by path: 1 at its head, -1 at its tail, 0 nowhere


def lay_out(graph: Flat) -> Laid:
    """Place boxes in rows and columns, with links that lead down and avoid boxes, or are cut."""
    rows = rows_of(graph)
    parts = parts_of(graph, rows)
    places = PartPlaces(parts, rows.order, graph.labels)
    tops, bottoms, height = _heights(parts, places, graph.labels)
    x, width = _in_columns(parts, places.x)
    points, begins = _courses(parts, places, x, tops, bottoms)
    first = begins // 3
    stubs = parts.boxes + parts.lanes
    shown = np.r_[0 : parts.boxes, stubs : len(x)]
    return Laid(
        width, height, x[shown], tops[parts.row[shown]], parts.stubs, parts.width[stubs:],
        points, begins, parts.link[first],
        np.where(parts.upper[first] >= stubs, -1, np.where(parts.lower[first] >= stubs, 1, 0)),
    )  # fmt: skip


def _heights(
    parts: LayoutParts, places: PartPlaces, labels: Floats
) -> tuple[Floats, Floats, float]:
    """The top and bottom of each row in its column; and the height of the tallest column."""
    number = len(parts.column)
    first = parts.begins & (labels[parts.link] > 0) & (parts.upper < parts.boxes)
    under = np.zeros(len(parts.row))
    under[parts.upper[first]] = UNDER_LABEL
    heights, slant, filled = np.zeros(number), np.zeros(number), np.zeros(number, bool)
    np.maximum.at(heights, parts.row, parts.height + under)
    filled[parts.row] = True
    far = places.x[parts.upper] + places.leaving - places.x[parts.lower] - places.entering
    np.maximum.at(slant, parts.row[parts.upper], np.abs(far))
    gaps = np.where(filled, ROW_GAP + np.minimum(MOST_BENT, BENT * slant), 0.0)
    bottom = np.cumsum(heights + gaps)
    column_first = np.flatnonzero(starts_of(parts.column))
    above = (bottom - heights - gaps)[column_first][parts.column]
    tops = bottom - heights - gaps - above
    return tops, tops + heights, float((tops + heights).max(initial=0.0))


def _in_columns(parts: LayoutParts, x: Floats) -> tuple[Floats, float]:
    """The positions with columns side by side; and their total width."""
    column = parts.column[parts.row]
    number = int(column.max(initial=-1)) + 1
    left, right = np.full(number, np.inf), np.full(number, -np.inf)
    np.minimum.at(left, column, x)
    np.maximum.at(right, column, x + parts.width)
    widths = right - left + BETWEEN_COLUMNS
    moved = np.cumsum(widths) - widths - left
    return x + moved[column], float(widths.sum()) - BETWEEN_COLUMNS if number else 0.0


def _courses(
    parts: LayoutParts, places: PartPlaces, x: Floats, tops: Floats, bottoms: Floats
) -> tuple[Floats, Ids]:
    """Three points for each step: its start, the end of its row, the start of the next row."""
    upper, lower = parts.upper, parts.lower
    row = parts.row[upper]
    leaves = x[upper] + places.leaving
    points = np.empty((len(upper), 3, 2))
    points[:, :2, 0] = leaves[:, None]
    points[:, 0, 1] = tops[row] + parts.height[upper]
    points[:, 1, 1] = bottoms[row]
    points[:, 2, 0] = x[lower] + places.entering
    points[:, 2, 1] = tops[parts.row[lower]]
    return points.reshape(-1, 2), 3 * np.flatnonzero(parts.begins)
