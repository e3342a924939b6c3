"""Nested periods of time of one thread: finds the one that contains a given time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

OPEN = np.iinfo(np.int64).max
"""The end of a period that has not ended."""


class Nesting:
    """Periods of one thread, sorted by their start."""

    def __init__(self, begin: Ints, end: Ints) -> None:
        self._begin, self._ended = begin, np.sort(end)
        many = np.arange(len(begin))
        depth = many - np.searchsorted(self._ended, begin, side="left")
        self._width = len(begin) + 1
        key = depth * self._width + many
        self._order = np.argsort(key)
        self._key = key[self._order]

    def around(self, t: Ints) -> Ints:
        """The index of the innermost period that contains each time; -1: none."""
        if not len(self._begin):
            return np.full(len(t), -1)
        begun = np.searchsorted(self._begin, t, side="right")
        inside = begun - np.searchsorted(self._ended, t, side="left")
        wanted = (inside - 1) * self._width + begun - 1
        at = np.searchsorted(self._key, wanted, side="right") - 1
        found = np.maximum(at, 0)
        right = (at >= 0) & (inside > 0) & (self._key[found] // self._width == inside - 1)
        return np.where(right, self._order[found], -1)
