"""The statistics of all that was looked at, as rows of numbers that compiled kernels write.

# Note [Measured once]
Most of what a backward shows is what it showed before: a node returns a gradient, the next one
takes it, and it becomes `.grad`; or a node only lays it out anew. Between these looks nothing but
the engine's own code runs, which writes into a gradient only where it tells of a sum. So a finite
array is known again, by itself or as all of the array that owns its memory, as long as that lives,
until users' code may have run. It is not kept for that: the engine looks at who holds an array.
Likewise the result of a call is known in its views, until something is written or the program gets
hold of its memory (`lent`).
"""

from __future__ import annotations

import sys
from itertools import count
from typing import TYPE_CHECKING, Any
from weakref import ref

import numpy as np

from gradscope.record.notes.statistics import FIRST, Statistics, statistics
from gradscope.runtime.core.kernels.support import LARGE, pays_from
from gradscope.runtime.core.tensors.memory.storage import dense

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gradscope.record.notes.log import Ints

ROWS = 1 << 11
"""How many rows are made at once."""

COUNTED = len(Statistics._fields) - 1
"""How many numbers a row has before it names the bad elements."""

WORTH, LONG = pays_from(1 << 13), pays_from(1 << 16)
"""After so many looks at small arrays the kernels are read: where Numba is there; and anyway."""

ndarray = np.ndarray


class MeasuredRows:
    """Some rows, and which are taken."""

    __slots__ = ("cells", "first", "left", "next")

    def __init__(self, first: int) -> None:
        self.cells = np.empty((ROWS, COUNTED + FIRST))
        self.first = first
        self.next = count().__next__
        self.left = ROWS  # rows that have not been read


class Measured:
    """Gives out rows, fills them, and reads them once. Rows have numbers from 0."""

    def __init__(self) -> None:
        self._rows = MeasuredRows(0)
        self._all = {0: self._rows}
        self._known: dict[int, tuple[Any, Any]] = {}
        self._looks = 0
        self._kernels: dict[str, Any] = {}

    def forget(self) -> None:
        """What was looked at may have changed. See Note [Measured once]."""
        self._known.clear()

    def lent(self, array: Any) -> None:
        """The same of one array, and of all that shares its memory."""
        self._known.pop(id(array), None)
        self._known.pop(id(array.base), None)

    def row(self, array: Any) -> tuple[int, bool]:
        """The row of an array, and whether something is not finite in it."""
        rows, place = self._place()
        return rows.first + place, self._fill(array, rows.cells, place)

    def of_gradient(self, array: Any) -> tuple[int, bool]:
        """The same of an array that only the engine sees."""
        whole = _whole(array)
        found = self._again(whole)
        return self._kept(array, whole) if found is None else (found, False)

    def of_made(self, array: Any) -> tuple[int, bool]:
        """The same of one that was just made, or written to by the engine."""
        return self._kept(array, _whole(array))

    def of_view(self, array: Any) -> tuple[int, bool]:
        """The same of a view of what nobody has written to."""
        found = self._again(_whole(array))
        return self.row(array) if found is None else (found, False)

    def _again(self, whole: Any) -> int | None:
        """A row like that of something known; None if it is not."""
        known = self._known.get(id(whole))
        if known is None or known[0]() is not whole:
            return None
        rows, place = self._place()
        rows.cells[place] = known[1]
        return rows.first + place

    def _kept(self, array: Any, whole: Any) -> tuple[int, bool]:
        """A row by which an array will be known, if it is finite."""
        rows, place = self._place()
        bad = self._fill(array, rows.cells, place)
        if bad:
            self._known.pop(id(whole), None)
        else:
            self._known[id(whole)] = ref(whole), rows.cells[place]
        return rows.first + place, bad

    def counts(self, number: int) -> tuple[int, int, int]:
        """How many elements the array of this row has, how many are NaN, and how many infinite."""
        row = self._all[number // ROWS].cells[number % ROWS]
        return int(row[0]), int(row[1]), int(row[2] + row[3])

    def read(self, numbers: Ints) -> NDArray[np.float64]:
        """Rows, which may be forgotten then: each is read once."""
        found = np.empty((len(numbers), COUNTED + FIRST))
        parts = numbers // ROWS
        for part in np.unique(parts).tolist():
            chosen = parts == part
            rows = self._all[part]
            found[chosen] = rows.cells[numbers[chosen] % ROWS]
            rows.left -= int(np.count_nonzero(chosen))
            if not rows.left:
                del self._all[part]
        return found

    def _place(self) -> tuple[MeasuredRows, int]:
        """A free row."""
        rows = self._rows
        place = rows.next()
        while place >= ROWS:  # whichever thread comes first makes others
            self.forget()  # which may be arrays that are no more
            made = MeasuredRows(rows.first + ROWS)
            rows = self._rows = self._all.setdefault(made.first // ROWS, made)
            place = rows.next()
        return rows, place

    def _fill(self, array: Any, cells: Any, place: int) -> bool:
        """Measure an array; whether something is not finite in it."""
        kind = array.dtype.char
        measure = self._kernels.get(kind) or self._kernel(kind, array.size)
        if measure is not None and array.size:
            said = measure(array.ravel("K"), cells, place)
            if said == 0:
                return False
            if said == 1:
                if not array.flags.c_contiguous:  # bad elements are counted in order of the dims
                    measure(array.ravel(), cells, place)
                return True
        *numbers, bad = statistics(array)
        cells[place, :COUNTED] = numbers
        cells[place, COUNTED : COUNTED + len(bad)] = bad
        return bool(bad)

    def _kernel(self, kind: str, size: int) -> Any:
        """The kernel for elements of this kind, once it is worth reading Numba."""
        if kind not in "fd":
            return None
        self._looks += 1
        worth = WORTH if "numba" in sys.modules else LONG
        if size < LARGE and self._looks < worth:
            return None
        from gradscope.runtime.fast.arrays.fast_statistics import MEASURES

        self._kernels = MEASURES
        return MEASURES[kind]


def named(row: NDArray[np.float64]) -> tuple[int, ...]:
    """Where the first elements are that are not finite."""
    return tuple(map(int, row[COUNTED : COUNTED + min(FIRST, int(row[1] + row[2] + row[3]))]))


def _whole(array: Any) -> Any:
    """What owns all of an array's memory and nothing else; the array, if nothing does."""
    base = array.base
    if base is None or base.__class__ is not ndarray:
        return array
    if base.size != array.size or base.dtype is not array.dtype:
        return array
    return base if array.flags.forc or dense(array) else array
