"""The input of a layout: boxes and links as arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from gradscope.analysis.lookups import Ids

Floats: TypeAlias = NDArray[np.float64]
Flags: TypeAlias = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Flat:
    """Boxes, by number, and links between them. No box links to itself."""

    widths: Floats
    heights: Floats
    titles: Floats  # widths of titles in a stub
    tails: Ids
    heads: Ids
    labels: Floats  # widths of labels of links; 0 if there is none

    @property
    def boxes(self) -> int:
        return len(self.widths)


def starts_of(sorted_ids: Ids) -> Flags:
    """Where another run of equal numbers begins."""
    first = np.ones(len(sorted_ids), bool)
    first[1:] = sorted_ids[1:] != sorted_ids[:-1]
    return first


def place_in_run(first: Flags) -> Ids:
    """The index of each item in its run."""
    places = np.arange(len(first))
    return places - np.maximum.accumulate(np.where(first, places, 0))


def sums_in_runs(values: Floats, first: Flags) -> Floats:
    """The sum of all previous items in the same run."""
    before = np.cumsum(values) - values
    starts = np.flatnonzero(first)
    return before - np.repeat(before[starts], np.diff(starts, append=len(values)))


def in_order(run: Ids, wish: Floats) -> Ids:
    """Sort items by run, then by wish (in steps of a hundredth of a pixel), then by current order.

    Each item becomes one number, because sorting by several keys takes ten times longer.
    """
    if not len(run):
        return np.empty(0, np.int64)
    own = len(run).bit_length()
    rough = max(0, 62 - own - int(run.max()).bit_length())
    low = float(wish.min())
    scale = min(256.0, float((1 << rough) - 1) / max(float(wish.max()) - low, 1.0))
    key = (run << rough) + ((wish - low) * scale).astype(np.int64)
    return np.sort((key << own) + np.arange(len(run))) & ((1 << own) - 1)
