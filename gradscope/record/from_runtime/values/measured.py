"""Statistics of measured arrays, as rows of numbers written by compiled kernels.

# Note [Measured once]
Most values in a backward occur several times: a node returns a gradient, the next one receives it,
and it becomes `.grad`; or a node only changes its layout. Between these measurements only code of
the engine runs, which writes into a gradient only where it reports a sum. So a finite array is
recognized, by its identity or that of the array that owns its memory, until it is freed or users'
code may have run. It is not kept alive for that, because the engine checks the references to an
array. Likewise the result of a call is recognized in its views, until something is written or the
program gets access to its memory (`lent`).
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
"""Number of rows that are created at once."""

COUNTED = len(Statistics._fields) - 1
"""Number of columns of a row before the indices of the bad elements."""

WORTH, LONG = pays_from(1 << 13), pays_from(1 << 16)
"""Number of measurements of small arrays after which kernels are loaded: if Numba is imported, and
in any case."""

ndarray = np.ndarray


class MeasuredRows:
    """A block of rows, and which of them are used."""

    __slots__ = ("cells", "first", "left", "next")

    def __init__(self, first: int) -> None:
        self.cells = np.empty((ROWS, COUNTED + FIRST))
        self.first = first
        self.next = count().__next__
        self.left = ROWS  # rows that have not been read


class Measured:
    """Assigns rows, fills them, and reads each once. Rows have numbers from 0."""

    def __init__(self) -> None:
        self._rows = MeasuredRows(0)
        self._all = {0: self._rows}
        self._known: dict[int, tuple[Any, Any]] = {}
        self._looks = 0
        self._kernels: dict[str, Any] = {}

    def forget(self) -> None:
        """Forget all arrays, because they may have changed. See Note [Measured once]."""
        self._known.clear()

    def lent(self, array: Any) -> None:
        """Forget this array and the owner of its memory, because the program may change them."""
        self._known.pop(id(array), None)
        self._known.pop(id(array.base), None)

    def row(self, array: Any) -> tuple[int, bool]:
        """Measure an array. Returns its row, and whether any value is not finite."""
        rows, place = self._place()
        return rows.first + place, self._fill(array, rows.cells, place)

    def of_gradient(self, array: Any) -> tuple[int, bool]:
        """Like `row`, for an array that only the engine can access."""
        whole = _whole(array)
        found = self._again(whole)
        return self._kept(array, whole) if found is None else (found, False)

    def of_made(self, array: Any) -> tuple[int, bool]:
        """Like `row`, for an array that the engine has just created or written to."""
        return self._kept(array, _whole(array))

    def of_view(self, array: Any) -> tuple[int, bool]:
        """Like `row`, for a view of memory that was not written to."""
        found = self._again(_whole(array))
        return self.row(array) if found is None else (found, False)

    def _again(self, whole: Any) -> int | None:
        """A copy of the row of a known array; None if it is not known."""
        known = self._known.get(id(whole))
        if known is None or known[0]() is not whole:
            return None
        rows, place = self._place()
        rows.cells[place] = known[1]
        return rows.first + place

    def _kept(self, array: Any, whole: Any) -> tuple[int, bool]:
        """Measure an array, and remember its row if all values are finite."""
        rows, place = self._place()
        bad = self._fill(array, rows.cells, place)
        if bad:
            self._known.pop(id(whole), None)
        else:
            self._known[id(whole)] = ref(whole), rows.cells[place]
        return rows.first + place, bad

    def counts(self, number: int) -> tuple[int, int, int]:
        """Number of elements in the array of this row, of NaN, and of infinite elements."""
        row = self._all[number // ROWS].cells[number % ROWS]
        return int(row[0]), int(row[1]), int(row[2] + row[3])

    def read(self, numbers: Ints) -> NDArray[np.float64]:
        """Read rows and release them: each is read once."""
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
        while place >= ROWS:  # the first thread adds new rows
            self.forget()  # which may belong to arrays that were freed
            made = MeasuredRows(rows.first + ROWS)
            rows = self._rows = self._all.setdefault(made.first // ROWS, made)
            place = rows.next()
        return rows, place

    def _fill(self, array: Any, cells: Any, place: int) -> bool:
        """Measure an array. Returns whether any value is not finite."""
        kind = array.dtype.char
        measure = self._kernels.get(kind) or self._kernel(kind, array.size)
        if measure is not None and array.size:
            said = measure(array.ravel("K"), cells, place)
            if said == 0:
                return False
            if said == 1:
                if not array.flags.c_contiguous:  # bad elements are counted in dim order
                    measure(array.ravel(), cells, place)
                return True
        *numbers, bad = statistics(array)
        cells[place, :COUNTED] = numbers
        cells[place, COUNTED : COUNTED + len(bad)] = bad
        return bool(bad)

    def _kernel(self, kind: str, size: int) -> Any:
        """The kernel for this dtype, when loading Numba pays off."""
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
    """The indices of the first elements that are not finite."""
    return tuple(map(int, row[COUNTED : COUNTED + min(FIRST, int(row[1] + row[2] + row[3]))]))


def _whole(array: Any) -> Any:
    """The array that owns exactly this array's memory; the array itself if there is none."""
    base = array.base
    if base is None or base.__class__ is not ndarray:
        return array
    if base.size != array.size or base.dtype is not array.dtype:
        return array
    return base if array.flags.forc or dense(array) else array
