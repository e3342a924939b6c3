"""What is laid out: boxes and links as arrays."""

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
    titles: Floats  # how wide the titles are in a stub
    tails: Ids
    heads: Ids
    labels: Floats  # how wide the links' labels are; 0 where there is none

    @property
    def boxes(self) -> int:
        return len(self.widths)


def starts_of(sorted_ids: Ids) -> Flags:
    """Where another run of equal numbers begins."""
    first = np.ones(len(sorted_ids), bool)
    first[1:] = sorted_ids[1:] != sorted_ids[:-1]
    return first


def place_in_run(first: Flags) -> Ids:
    """How many come before each in its run."""
    places = np.arange(len(first))
    return places - np.maximum.accumulate(np.where(first, places, 0))


def sums_in_runs(values: Floats, first: Flags) -> Floats:
    """The sum of what comes before each in its run."""
    before = np.cumsum(values) - values
    starts = np.flatnonzero(first)
    return before - np.repeat(before[starts], np.diff(starts, append=len(values)))


def in_order(run: Ids, wish: Floats) -> Ids:
    """What comes first, second, …: by run, then by wish to some hundredths of a pixel, then as now.

    All in one number each, since sorting numbers takes a tenth of sorting places by several keys.
    """
    if not len(run):
        return np.empty(0, np.int64)
    own = len(run).bit_length()
    rough = max(0, 62 - own - int(run.max()).bit_length())
    low = float(wish.min())
    scale = min(256.0, float((1 << rough) - 1) / max(float(wish.max()) - low, 1.0))
    key = (run << rough) + ((wish - low) * scale).astype(np.int64)
    return np.sort((key << own) + np.arange(len(run))) & ((1 << own) - 1)
