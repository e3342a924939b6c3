"""The parts of rows: boxes, lanes for links over several rows, and stubs of cut links."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gradscope.analysis.lookups import Ids
from gradscope.scene.layout.arrays.graph import Flags, Flat, Floats, place_in_run, starts_of
from gradscope.scene.layout.arrays.rows import LayoutRows
from gradscope.scene.layout.columns import LONGEST, MOST_ROWS, MOST_STUBS
from gradscope.scene.layout.measure import Style, width_of
from gradscope.scene.layout.pieces import LANE

LANES_EACH = 3
"""Largest number of lanes per box."""
SPARE = 6.0
"""Additional width of a stub besides its text."""


@dataclass(frozen=True, slots=True)
class Stubs:
    """The texts at the ends of cut links: first at their tails, then at their heads."""

    link: Ids  # the first of those that share the stub
    box: Ids  # the box of the stub
    other: Ids  # the box that it names
    together: Ids  # number of links that it stands for, if counted; else 1
    below: Flags  # below a tail; otherwise above a head


@dataclass(frozen=True, slots=True)
class LayoutParts:
    """Boxes, then lanes, then stubs; and steps, each from a part to one in the next row."""

    boxes: int
    lanes: int
    row: Ids
    width: Floats
    height: Floats
    upper: Ids  # of steps, in the order along the links
    lower: Ids
    link: Ids
    column: Ids  # by row
    stubs: Stubs

    @property
    def is_lane(self) -> Flags:
        places = np.arange(len(self.row))
        return (places >= self.boxes) & (places < self.boxes + self.lanes)

    @property
    def begins(self) -> Flags:
        """Whether each step is the first of a path."""
        return ~self.is_lane[self.upper]


def parts_of(graph: Flat, rows: LayoutRows) -> LayoutParts:
    """The parts of all rows. Each column has an additional row above and below, for stubs."""
    row = rows.row + 2 * rows.column[rows.row] + 1
    column = np.repeat(
        np.arange(int(rows.column.max(initial=-1)) + 1), np.bincount(rows.column) + 2
    )
    over = row[graph.heads] - row[graph.tails]
    apart = rows.column[rows.row[graph.heads]] != rows.column[rows.row[graph.tails]]
    cut = apart | (over <= 0) | (over > _longest(over[~apart], graph.boxes))
    whole = np.flatnonzero(~cut)
    lanes = over[whole] - 1  # of each link
    first_lane = graph.boxes + np.cumsum(lanes) - lanes
    step_link = np.repeat(whole, lanes + 1)
    place = place_in_run(starts_of(step_link))
    lane = np.repeat(first_lane, lanes + 1) + place  # the lane below each step
    last = place == np.repeat(lanes, lanes + 1)
    upper = np.where(place == 0, graph.tails[step_link], lane - 1)
    lower = np.where(last, graph.heads[step_link], lane)
    stubs = _stubs(graph, np.flatnonzero(cut))
    total = graph.boxes + int(lanes.sum())
    stub = total + np.arange(len(stubs.link))
    return LayoutParts(
        boxes=graph.boxes,
        lanes=total - graph.boxes,
        row=np.concatenate([
            row,
            (row[graph.tails[step_link]] + place + 1)[~last],
            row[stubs.box] + np.where(stubs.below, 1, -1),
        ]),
        width=np.concatenate([
            graph.widths, np.full(total - graph.boxes, LANE), _widths(graph, stubs)
        ]),
        height=np.concatenate([
            graph.heights, np.zeros(total - graph.boxes),
            np.full(len(stub), Style.STUB.height),
        ]),
        upper=np.concatenate([upper, np.where(stubs.below, stubs.box, stub)]),
        lower=np.concatenate([lower, np.where(stubs.below, stub, stubs.box)]),
        link=np.concatenate([step_link, stubs.link]),
        column=column,
        stubs=stubs,
    )  # fmt: skip


def _longest(over: Ids, boxes: int) -> int:
    """Largest number of rows that a link may cross, which limits the room for lanes."""
    found = np.bincount(np.clip(over, 0, MOST_ROWS + 1), minlength=MOST_ROWS + 2)
    lanes = np.cumsum(found[2 : MOST_ROWS + 1] * np.arange(1, MOST_ROWS))
    return 1 + int(np.searchsorted(lanes, LANES_EACH * boxes, "right"))


def _stubs(graph: Flat, cut: Ids) -> Stubs:
    kinds = []
    for end, other, below in ((graph.tails, graph.heads, True), (graph.heads, graph.tails, False)):
        links = cut[np.argsort(end[cut], kind="stable")]
        first = starts_of(end[links])
        number = np.bincount(end[links], minlength=graph.boxes)[end[links]]
        many = number > MOST_STUBS
        kept = first | ~many
        links, together = links[kept], np.where(many, number, 1)[kept]
        kinds.append((links, end[links], other[links], together, np.full(len(links), below)))
    return Stubs(*(np.concatenate(each) for each in zip(*kinds, strict=True)))


def _widths(graph: Flat, stubs: Stubs) -> Floats:
    arrow = width_of("→ ", Style.STUB)
    counted = width_of("1,000,000 boxes", Style.STUB)
    named = np.where(stubs.together > 1, counted, graph.titles[stubs.other])
    return np.minimum(named + arrow, LONGEST) + SPARE
