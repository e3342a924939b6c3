"""Which tensor, and which memory, each operand was: addresses are used again.

# Note [Addresses in the order of calls]
What a call returns is new, unless it was given it, or a call inside it has returned it: then what
was put down last of that address is of this call, or of one that began after it. What a call is
given is what was last seen at that address, unless it looks different, or was written to less
often: then it came from where nobody looked. The same holds of memory, by where it begins. So a
tensor that dies unseen, and another that comes unseen to the same place and looks like it, are one
here: that is why it is said to be inferred.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gradscope.record.notes.log import Ints
from gradscope.trace.schema import NONE
from gradscope.watch.called import operand_rows as row

LOOKS = [row.COUNTER, row.STORAGE, row.DATA, row.KIND, *range(row.SIZES, row.WIDTH)]
"""What else a tensor is told apart by."""

MOST_KEPT = 1 << 16
"""Of so many addresses it is remembered what was there."""


@dataclass(frozen=True, slots=True)
class SeenOperands:
    """Operands in the order in which they were seen, and who they were: numbers from 0 up."""

    rows: Ints
    tensor: Ints
    storage: Ints  # NONE: it has no memory of that kind
    begins: Ints  # the places of rows with which a tensor begins


class Identities:
    """Tells apart what was at the same address, recording by recording."""

    def __init__(self) -> None:
        self._tensors = _Addresses(row.TENSOR, LOOKS, may_sink=row.VERSION)
        self._storages = _Addresses(row.STORAGE, [row.DATA])

    def of(self, rows: Ints) -> SeenOperands:
        """Who these are, which came after all former ones."""
        tensor, begins = self._tensors.of(rows)
        storage = np.full(len(rows), NONE)
        lies = np.flatnonzero(rows[:, row.STORAGE])
        storage[lies], _ = self._storages.of(rows[lies])
        return SeenOperands(rows, tensor, storage, begins)

    def last(self) -> tuple[Ints, Ints]:
        """What was last seen at each address, and which tensor that was."""
        return self._tensors.rows, self._tensors.numbers

    def forget(self) -> None:
        """Rows were lost: nothing that was known need still hold."""
        for each in (self._tensors, self._storages):
            each.rows, each.numbers = each.rows[:0], each.numbers[:0]


class _Addresses:
    """What was last seen at each address."""

    def __init__(self, key: int, same: list[int], *, may_sink: int | None = None) -> None:
        self._key, self._same, self._may_sink = key, same, may_sink
        self._next = 0
        self.rows = np.zeros((0, row.WIDTH), np.int64)
        self.numbers = np.zeros(0, np.int64)

    def of(self, new: Ints) -> tuple[Ints, Ints]:
        """The number of each, and where numbers begin."""
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
        """Of rows that are sorted by address: which of them another begins with."""
        if not len(ordered):
            return np.zeros(0, np.bool_)
        now, before = ordered[1:], ordered[:-1]
        given = now[:, row.AT] >= 0
        other = (now[:, self._same] != before[:, self._same]).any(axis=1)
        if self._may_sink is not None:
            other |= now[:, self._may_sink] < before[:, self._may_sink]
        new = np.where(given, other, before[:, row.CALL] < now[:, row.CALL])
        return np.append(True, (now[:, self._key] != before[:, self._key]) | new)
