"""Measures values of tensors with NumPy: the same rows as machine code writes (values/ring.py)."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from time import perf_counter_ns
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from gradscope.watch.in_place.sharded import local_part
from gradscope.watch.unseen import unseen
from gradscope.watch.values.arrays import numbers
from gradscope.watch.values.devices.device_looks import DeviceLooks
from gradscope.watch.values.ring_rows import (
    COUNT,
    HEAD,
    IN_UNITS,
    LOW,
    MEASURED,
    ON_DEVICE,
    SQUARES,
    STAMP,
    ZERO,
)
from gradscope.watch.values.statistics import StatisticsColumns

Ints = NDArray[np.int64]
NONE = -1
MANY = 1 << 13
"""Number of rows from which they are read, even if they are not requested yet."""

INTEGERS: dict[Any, Any] = {
    torch.int64: np.int64, torch.int32: np.int32, torch.int16: np.int16, torch.int8: np.int8,
    torch.uint8: np.uint8, torch.bool: np.bool_,
}  # fmt: skip

Measured = tuple[int, int, int, int, int, float, float, float, float, float, tuple[int, ...]]
"""Number of elements, of NaN, +Inf, -Inf and zeros; minimum, maximum, mean, root mean square and
norm of the finite ones; the indices of the first others."""


class OnDevice(NamedTuple):
    """A tensor that is measured on its device: its size, and the number of that look."""

    size: int
    number: int


class Look(NamedTuple):
    """One measured tensor: the first columns of a row of a ring, and its statistics."""

    about: tuple[int, ...]
    measured: Measured | OnDevice

    @property
    def counts(self) -> tuple[int, ...]:
        """Number of elements, of NaN, +Inf, -Inf and zeros, as in a row."""
        here = self.measured
        return (*here, 0, 0, 0) if isinstance(here, OnDevice) else here[:5]

    @property
    def sizes(self) -> tuple[float, ...]:
        """Minimum, maximum, mean and root mean square."""
        return NOT_YET if isinstance(self.measured, OnDevice) else self.measured[5:9]

    @property
    def bad(self) -> tuple[int, ...]:
        """The indices of the first elements that are not finite."""
        return () if isinstance(self.measured, OnDevice) else self.measured[-1]


NOT_YET = (0.0, 0.0, 0.0, 0.0)


class PublicLooksRead(NamedTuple):
    """Rows since the last reading; `bad`: by stamp, the indices of the first bad elements."""

    rows: Ints
    lost: int
    bad: dict[int, tuple[int, ...]]


class PublicRing:
    """Measures tensors for one recording; read in one thread at a time."""

    unread = 0
    """Tensors that cannot be read are counted where that is determined (reachable.py)."""

    now = staticmethod(perf_counter_ns)

    def __init__(self, statistics: Callable[[Any], Measured]) -> None:
        self._statistics = statistics
        self.devices = DeviceLooks()
        self._rows: list[Look] = []
        self._stamps = count(1)
        self.next: Callable[[], int] = count(1).__next__
        """Numbers for sums, which are the keys of rows for operands and results."""
        self._bad = self._with_nan = 0

    @staticmethod
    def of(tensor: Any) -> Any:
        """How `look` receives a tensor."""
        return tensor

    @property
    def not_finite(self) -> tuple[int, int]:
        """Number of tensors with NaN or Inf, and of those with NaN."""
        return self._bad, self._with_nan

    def start(self) -> None:
        """Begin measuring."""
        self.devices.start()

    def stop(self) -> None:
        """Stop measuring."""
        self.devices.stop()

    def forget(self) -> None:
        """A hook of the program is called: nothing is remembered from before."""

    def look(
        self, place: int, index: int, key: int, t: int, tensor: int, task: int, step: int, of: Any
    ) -> None:
        """Add the row of a tensor."""
        measured = self.measure(of)
        if measured is not None:
            self._add((t, place, index, key, tensor, task, step), measured)

    def put(self, place: int, index: int, key: int, t: int, of: Any) -> Measured | OnDevice | None:
        """Add the row of a gradient. Returns its statistics; None: it is not readable."""
        measured = self.measure(of)
        self.again(place, index, key, t, measured)
        return measured

    def again(
        self, place: int, index: int, key: int, t: int, measured: Measured | OnDevice | None
    ) -> None:
        """Add a row with these statistics."""
        if measured is not None:
            self._add((t, place, index, key, NONE, NONE, NONE), measured)

    def measure(self, tensor: Any) -> Measured | OnDevice | None:
        """The statistics of a tensor; None: it is not readable."""
        with unseen():
            own = local_part(tensor)
            number = self.devices.measure(own)
            if number:
                return OnDevice(own.numel(), number)
            array = numbers(tensor, INTEGERS)
        if array is None:
            return None
        measured = self._statistics(array)
        if measured[-1]:
            self._bad += 1
            self._with_nan += measured[1] > 0
        return measured

    def _add(self, about: tuple[int, ...], measured: Measured | OnDevice) -> None:
        self._rows.append(Look((next(self._stamps), *about), measured))

    def is_filling(self) -> bool:
        """Whether rows should be read soon."""
        return len(self._rows) > MANY

    def read(self) -> PublicLooksRead:
        """The rows since the last reading."""
        looks = self._rows[:]
        del self._rows[: len(looks)]
        rows = np.zeros((len(looks), HEAD + MEASURED), np.int64)
        if looks:
            rows[:, :HEAD] = [look.about for look in looks]
            rows[:, HEAD + COUNT : HEAD + ZERO + 1] = [look.counts for look in looks]
            rows[:, HEAD + IN_UNITS] = [
                ON_DEVICE * isinstance(look.measured, OnDevice) for look in looks
            ]
            sizes = np.array([look.sizes for look in looks], np.float64)
            rows[:, HEAD + LOW : HEAD + SQUARES + 1] = sizes.view(np.int64)
        bad = {look.about[STAMP]: look.bad for look in looks if look.bad}
        return PublicLooksRead(rows, 0, bad)

    def columns(self, rows: Ints) -> StatisticsColumns:
        """The statistics of these rows, whose sums are the mean and the root mean square."""
        size, nan, posinf, neginf, zero = rows[:, HEAD + COUNT : HEAD + ZERO + 1].T
        sizes = np.ascontiguousarray(rows[:, HEAD + LOW : HEAD + SQUARES + 1].T).view(np.float64)
        return StatisticsColumns(size, nan, posinf, neginf, zero, *sizes)
