"""The steps that are summed up: as many as a share of the program's time allows."""

from __future__ import annotations

from time import perf_counter_ns


class SummaryPace:
    """Chooses the steps that are measured.

    The first `first` steps are. After a measurement none is made for `share` times as long as it
    took, so all of them take at most one part in `share` of the time. From `most` rows on, only
    one step in 2, 4, 8, … can be chosen: the number of rows grows like the logarithm of the number
    of steps.
    """

    def __init__(self, *, first: int, share: int, most: int) -> None:
        self._first, self._share, self._most = first, share, most
        self._next = 0  # the earliest time of the next measurement
        self._rows = 0
        self._since = 0  # steps since the last one that was measured
        self.limit = most
        self.stride = 1
        """Only one step in this many can be measured."""
        self.measured = 0
        """Number of steps that were measured."""

    def hold(self, most: int) -> None:
        """Begin to choose fewer steps from this number of rows on."""
        self._most = self.limit = most

    def is_due(self, now: int) -> bool:
        """Whether the step that begins now is measured. Called once for each step."""
        self._since += 1
        if now < self._next and self.measured >= self._first:  # the usual case
            return False
        return self._since >= self.stride or self.measured < self._first

    def took(self, began: int, rows: int = 1, nanoseconds: int = 0) -> None:
        """A measurement that began at this time, or took this long, is over."""
        now = perf_counter_ns()
        self._next = now + (nanoseconds or now - began) * self._share
        self.measured += 1
        self._since = 0
        self._rows += rows
        limit = max(self.limit, FEWEST * rows)
        if self._rows > limit:
            self.stride *= 2
            self.limit = self._rows + max(self._most, FEWEST * rows) // 2


FEWEST = 64
"""Number of measured steps before fewer are measured, however many rows a step has."""
