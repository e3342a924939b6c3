"""Identifies the tensor and the memory of each operand, although addresses are reused.

# Note [Addresses in the order of calls]
The result of a call is a new tensor, unless it is one of its arguments, or a nested call has
returned it: then the last record of that address belongs to this call, or to one that began after
it. The argument of a call is the tensor last recorded at that address, unless its metadata differs
or its version is lower: then its origin was not recorded. The same applies to memory, by its
start address. So if a tensor is freed unnoticed, and a similar one is created unnoticed at the same
address, they count as one: this is why these columns are marked as inferred.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gradscope.record.notes.log import Ints
from gradscope.trace.schema import NONE
from gradscope.watch.called import operand_rows as row

LOOKS = [row.COUNTER, row.STORAGE, row.DATA, row.KIND, *range(row.SIZES, row.WIDTH)]
"""Other columns that distinguish tensors."""

MOST_KEPT = 1 << 16
"""Number of addresses whose last tensor is stored."""


@dataclass(frozen=True, slots=True)
class SeenOperands:
    """Operands in the order of their records, and their identities: numbers from 0."""

    rows: Ints
    tensor: Ints
    storage: Ints  # NONE: it has no memory of that kind
    begins: Ints  # indices of the first row of each tensor


class Identities:
    """Distinguishes tensors that had the same address, per recording."""

    def __init__(self) -> None:
        self._tensors = _Addresses(row.TENSOR, LOOKS, may_sink=row.VERSION)
        self._storages = _Addresses(row.STORAGE, [row.DATA])

    def of(self, rows: Ints) -> SeenOperands:
        """The identities of these operands, which follow all earlier ones."""
        tensor, begins = self._tensors.of(rows)
        storage = np.full(len(rows), NONE)
        lies = np.flatnonzero(rows[:, row.STORAGE])
        storage[lies], _ = self._storages.of(rows[lies])
        return SeenOperands(rows, tensor, storage, begins)

    def last(self) -> tuple[Ints, Ints]:
        """The last record at each address, and the identity of its tensor."""
        return self._tensors.rows, self._tensors.numbers

    def forget(self) -> None:
        """Called when rows were lost: previous knowledge may be wrong."""
        for each in (self._tensors, self._storages):
            each.rows, each.numbers = each.rows[:0], each.numbers[:0]


class _Addresses:
    """The last record at each address."""

    def __init__(self, key: int, same: list[int], *, may_sink: int | None = None) -> None:
        self._key, self._same, self._may_sink = key, same, may_sink
        self._next = 0
        self.rows = np.zeros((0, row.WIDTH), np.int64)
        self.numbers = np.zeros(0, np.int64)

    def of(self, new: Ints) -> tuple[Ints, Ints]:
        """The identity of each row, and the first row of each identity."""
        rows = np.concatenate([self.rows, new])
        known = len(self.rows)
        order = np.argsort(rows[:, self._key], kind="stable")
        ordered = rows[order]
        begins = self._begins(ordered)
        begins[order < known] = True
        numbers = np.zeros(len(rows), np.int64)
        numbers[:known] = self.numbers
        first = order[begins & (order >= known)]
        first.sort()
        numbers[first] = self._next + np.arange(len(first))
        self._next += len(first)
        at = np.maximum.accumulate(np.where(begins, np.arange(len(order)), 0))
        numbers[order] = numbers[order[at]]
        last = np.append(ordered[1:, self._key] != ordered[:-1, self._key], True)[: len(order)]
        kept = np.sort(order[last])[-MOST_KEPT:]
        self.rows, self.numbers = rows[kept], numbers[kept]
        return numbers[known:], first - known

    def _begins(self, ordered: Ints) -> np.ndarray:
        """For rows sorted by address: whether each begins a new address."""
        if not len(ordered):
            return np.zeros(0, np.bool_)
        now, before = ordered[1:], ordered[:-1]
        given = now[:, row.AT] >= 0
        other = (now[:, self._same] != before[:, self._same]).any(axis=1)
        if self._may_sink is not None:
            other |= now[:, self._may_sink] < before[:, self._may_sink]
        new = np.where(given, other, before[:, row.CALL] < now[:, row.CALL])
        return np.append(True, (now[:, self._key] != before[:, self._key]) | new)
