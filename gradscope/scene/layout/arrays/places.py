"""Horizontal positions of parts in rows, and where links leave and enter them."""

from __future__ import annotations

import numpy as np

from gradscope.analysis.lookups import Ids
from gradscope.scene.layout.arrays.graph import Flags, Floats, in_order, starts_of, sums_in_runs
from gradscope.scene.layout.arrays.parts import LayoutParts
from gradscope.scene.layout.pieces import BESIDE_LANE, BETWEEN

SWEEPS = 6
SETTLINGS = 6
AFTER_LABEL, WITHOUT_LABEL, ENTERING = 12.0, 10.0, 12.0
"""Width of a link on an edge: next to its label, without a label, and where it enters."""
STRAIGHT = 4.0
"""Additional weight of the attraction between two lanes."""


class PartPlaces:
    """The position of each part, and of both ends of each step."""

    def __init__(self, parts: LayoutParts, order: Ids, labels: Floats) -> None:
        self._parts = parts
        self._labels = labels
        self._beside = np.where(parts.is_lane, BESIDE_LANE, BETWEEN)
        lanes = parts.is_lane
        self._weight = np.where(lanes[parts.upper] & lanes[parts.lower], STRAIGHT, 1.0)
        self.x = np.zeros(len(parts.row))
        self._own = np.concatenate([parts.lower, parts.upper])
        self._other = np.concatenate([parts.upper, parts.lower])
        number = np.bincount(self._own, minlength=len(parts.row))
        self._pulled, self._number = number > 0, np.maximum(number, 1)
        self._even = parts.row % 2 == 0
        self._arrange(self._begun(order))
        for sweep in range(SWEEPS):
            self._sweep(self._even ^ bool(sweep % 2))
        self.leaving, self.entering = self._ports()
        self._settle()
        self.leaving, self.entering = self._ports()  # again, with the final positions of the ends

    # Order ---------------------------------------------------------------------------------------

    def _begun(self, order: Ids) -> Floats:
        """The initial order: lanes and stubs next to their boxes."""
        parts = self._parts
        found = np.zeros(len(parts.row))
        found[: parts.boxes] = order
        first = np.flatnonzero(parts.begins)
        tail_of = np.repeat(parts.upper[first], np.diff(first, append=len(parts.link)))
        lane = parts.is_lane[parts.lower]
        found[parts.lower[lane]] = order[tail_of[lane]]
        stubs = parts.boxes + parts.lanes
        found[stubs:] = order[parts.stubs.box]
        return found

    def _arrange(self, wish: Floats) -> None:
        """Place the parts of each row side by side in this order, centred."""
        row = self._parts.row
        self._sorted = in_order(row, wish)
        self._first = starts_of(row[self._sorted])
        width = self._parts.width + self._beside
        left = sums_in_runs(width[self._sorted], self._first)
        self.x[self._sorted] = left
        self.x -= (np.bincount(row, width) / 2)[row]

    def _sweep(self, rows: Flags) -> None:
        """Order these rows by the means of their neighbours."""
        parts = self._parts
        middle = self.x + parts.width / 2
        mean = np.bincount(self._own, middle[self._other], len(self.x)) / self._number
        self._arrange(np.where(rows & self._pulled, mean, middle))

    # Ends ----------------------------------------------------------------------------------------

    def _ports(self) -> tuple[Floats, Floats]:
        """The distances from the left edges at which each step leaves and enters."""
        parts, middle = self._parts, self.x + self._parts.width / 2
        labels = np.where(parts.upper < parts.boxes, self._labels[parts.link], 0.0)
        slots = np.where(labels > 0, labels + AFTER_LABEL, WITHOUT_LABEL)
        into = np.where(labels > 0, AFTER_LABEL / 3, slots / 2)
        leaving = self._spread(parts.upper, middle[parts.lower], slots, into)
        slots = np.full(len(slots), ENTERING)
        entering = self._spread(parts.lower, middle[parts.upper], slots, slots / 2)
        return leaving, entering

    def _spread(self, ends: Ids, aim: Floats, slots: Floats, into: Floats) -> Floats:
        """Spread the steps of each part along its edge, in the order of their other ends."""
        widths = self._parts.width
        number = np.bincount(ends, minlength=len(widths))
        found = widths[ends] / 2
        several = np.flatnonzero(number[ends] > 1)
        order = several[in_order(ends[several], aim[several])]
        ends = ends[order]
        whole = np.bincount(ends, slots[order], len(widths))[ends]
        width = widths[ends]
        scale = np.minimum(1.0, np.maximum(width - 8, width / 2) / np.maximum(whole, 1.0))
        before = sums_in_runs(slots[order], starts_of(ends)) + into[order]
        found[order] = (width - whole * scale) / 2 + before * scale
        return found

    # Positions -----------------------------------------------------------------------------------

    def _settle(self) -> None:
        """Move parts towards their neighbours, without changing their order."""
        parts, sorted_ = self._parts, self._sorted
        shift = np.concatenate([self.leaving - self.entering, self.entering - self.leaving])
        pull = np.concatenate([self._weight, self._weight])
        weight = np.maximum(np.bincount(self._own, pull, len(self.x)), 1e-9)
        packed = sums_in_runs((parts.width + self._beside)[sorted_], self._first)
        run = np.cumsum(self._first) - 1
        for number in range(SETTLINGS):
            rows = self._pulled & (self._even ^ bool(number % 2))
            wish = np.bincount(self._own, (self.x[self._other] + shift) * pull, len(self.x))
            wish = np.where(rows, wish / weight, self.x)
            self.x[sorted_] = _apart(wish[sorted_] - packed, run) + packed


def _apart(wish: Floats, run: Ids) -> Floats:
    """The mean of the rightmost and leftmost positions that increase within each run."""
    if not len(wish):
        return wish
    span = float(wish.max() - wish.min()) + 1.0
    lifted = wish + run * span
    right = np.maximum.accumulate(lifted)
    left = np.minimum.accumulate(lifted[::-1])[::-1]
    return (right + left) / 2 - run * span
