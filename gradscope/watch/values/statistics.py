"""Converts sums from machine code to statistics, in columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gradscope.machine_code.statistics import UP
from gradscope.watch.values.ring_rows import COUNT, HEAD, IN_UNITS, LOW, SQUARES, ZERO

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class StatisticsColumns:
    """The columns of `record.notes.statistics`."""

    size: Ints
    nan: Ints
    posinf: Ints
    neginf: Ints
    zero: Ints
    min: Floats
    max: Floats
    mean: Floats
    rms: Floats

    def norm(self) -> Floats:
        """The roots of the sums of squares; may be infinite although all values are finite."""
        finite = self.size - self.nan - self.posinf - self.neginf
        with np.errstate(over="ignore"):
            norm: Floats = self.rms * np.sqrt(finite)
        return norm


def columns(rows: Ints) -> StatisticsColumns:
    """The statistics of rows of the ring."""
    words = rows[:, HEAD:].T
    size, nan, posinf, neginf, zero = words[COUNT : ZERO + 1]
    low, high, total, squares = np.ascontiguousarray(words[LOW : SQUARES + 1]).view(float)
    finite = size - nan - posinf - neginf
    some = finite > 0
    unit = np.where(words[IN_UNITS] != 0, UP, 1.0)
    nothing = np.where(some, 0.0, np.nan)
    many = np.maximum(finite, 1)
    mean, rms = total / many * unit + nothing, np.sqrt(squares / many) * unit + nothing
    low, high = np.where(some, low, np.nan), np.where(some, high, np.nan)
    return StatisticsColumns(size, nan, posinf, neginf, zero, low, high, mean, rms)
