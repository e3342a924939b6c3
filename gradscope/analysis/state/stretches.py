"""Ranges of moments during which rows hold, and look-up of those that hold at a moment.

A state consists of such ranges: waiting, queued, running, saved. Nothing is copied for each moment,
so any moment costs the same.
"""

from __future__ import annotations

import numpy as np

from gradscope.analysis.lookups import Ids

BLOCK = 1 << 10
"""Number of rows that are skipped at once if all of them have ended."""


class Stretches:
    """Ranges sorted by start. `rows` are the rows they belong to."""

    def __init__(self, since: Ids, until: Ids, rows: Ids | None = None) -> None:
        order = np.argsort(since, kind="stable")
        self.since = np.asarray(since, np.int64)[order]
        self.until = np.asarray(until, np.int64)[order]
        self.rows: Ids = order if rows is None else np.asarray(rows, np.int64)[order]
        self._last = np.maximum.reduceat(self.until, np.arange(0, len(order), BLOCK)) \
            if len(order) else self.until  # fmt: skip

    def __len__(self) -> int:
        return len(self.rows)

    def at(self, moment: int) -> Ids:
        """The rows that hold right after this moment, sorted by start."""
        begun = int(np.searchsorted(self.since, moment, side="right"))
        full = begun // BLOCK
        blocks = np.flatnonzero(self._last[:full] > moment) * BLOCK
        places = (blocks[:, None] + np.arange(BLOCK)).ravel()
        places = np.concatenate([places, np.arange(full * BLOCK, begun)])
        found: Ids = self.rows[places[self.until[places] > moment]]
        return found

    def begun(self, moment: int) -> int:
        return int(np.searchsorted(self.since, moment, side="right"))


def first_after(keys: Ids, moments: Ids, of_keys: Ids, of_moments: Ids, otherwise: Ids) -> Ids:
    """For each key and moment the next moment of the same key."""
    if not len(of_keys) or not len(keys):
        return otherwise.copy()
    both = np.concatenate([keys, of_keys])
    numbers = np.unique(both, return_inverse=True)[1].astype(np.int64)
    most = int(max(moments.max(), of_moments.max())) + 2
    ends = numbers[len(keys) :] * most + of_moments
    order = np.argsort(ends, kind="stable")
    ends = ends[order]
    wanted = numbers[: len(keys)] * most + moments
    place = np.searchsorted(ends, wanted, side="right")
    there = place < len(ends)
    place = np.minimum(place, len(ends) - 1)
    same = there & (ends[place] // most == numbers[: len(keys)])
    return np.where(same, ends[place] % most, otherwise)
