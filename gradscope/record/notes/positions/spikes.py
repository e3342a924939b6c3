"""Steps whose gradients are much larger than those before: `--around spike`."""

from __future__ import annotations

from collections import defaultdict, deque
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

from gradscope.trace.schema import Place, Value
from gradscope.trace.shorthand.short_looks import floats_of
from gradscope.trace.shorthand.tables import ShortLook

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gradscope.trace.schema import Row

TIMES = 10
"""A step is a spike if its gradients have this many times the usual norm."""
BEFORE, LEAST = 100, 20
"""Number of earlier steps that say what is usual, and how many are needed."""


class Spikes:
    """Compares the norm of all gradients that nodes receive in a step with the usual one.

    That is the median of the steps before it.
    """

    def __init__(self) -> None:
        self._squares: defaultdict[int, float] = defaultdict(float)
        self._usual: deque[float] = deque(maxlen=BEFORE)

    def hear(self, row: type[Row], columns: Mapping[str, Any]) -> None:
        """Take the norms of gradients from rows that are written."""
        if row not in (ShortLook, Value):
            return
        chosen = np.flatnonzero(np.asarray(columns["place"]) == Place.NODE_INPUT)
        if row is ShortLook:
            rms = floats_of(*(np.asarray(columns[name])[chosen] for name in ("rms", "wide")))
        else:
            rms = np.asarray(columns["rms"], np.float64)[chosen]
        count, step = (np.asarray(columns[name])[chosen] for name in ("count", "step"))
        squares = rms * rms * count
        for number, square in zip(step.tolist(), squares.tolist(), strict=True):
            self._squares[number] += square

    def found(self) -> bool:
        """Whether one of the steps heard of since the last call is a spike."""
        squares, self._squares = self._squares, defaultdict(float)
        found = False
        for _, square in sorted(squares.items()):
            norm = float(np.sqrt(square))
            if not np.isfinite(norm):
                continue
            if len(self._usual) >= LEAST and norm > TIMES * median(self._usual) > 0:
                found = True
            self._usual.append(norm)
        return found
