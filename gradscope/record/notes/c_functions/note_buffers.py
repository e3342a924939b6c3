"""The memory of the compiled functions, and the code that fills and empties it.

A callable holds its memory, and the memory never holds its callables: so a call that is running
when a recording ends still has everything it needs, and leaves no reference cycle.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradscope.machine_code.callables import Callables
from gradscope.record.notes.c_functions import noting as made_of


class NumberBuffer:
    """64 bits of every number pushed, until they are taken: one row of the array per column.

    There are two arrays, one to push into while the other is emptied: reusing memory is faster than
    requesting it from the system, which would zero it.
    """

    RECORDS = 1 << 16

    def __init__(self, functions: Callables, width: int, overflow: Callable[..., Any]) -> None:
        self._cells, self._spare = np.empty((2, width, self.RECORDS), np.int64)
        self._overflow = overflow  # held: the words contain its address
        cells, column = self._cells.ctypes.data, self._cells.strides[0]
        self.words = np.array([cells, 0, self.RECORDS, id(overflow), id(None), column], np.int64)
        self._functions = functions

    @property
    def push(self) -> Any:
        """Adds a record."""
        return self._functions.over(made_of.push, self)

    def __len__(self) -> int:
        return int(self.words[1])

    def take(self) -> NDArray[np.int64]:
        """All records so far, one row per column. Only one thread may take, while others push."""
        cells, self._cells, self._spare = self._cells, self._spare, self._cells
        swap = self._functions.over(made_of.swap, self)
        return cells[:, : swap(self._cells.ctypes.data)].copy()


class SiteTable:
    """Sites by address, and `site`, which finds those of a frame or of its callers."""

    def __init__(
        self, functions: Callables, known: dict[int, int], ask: Callable[..., Any]
    ) -> None:
        self._ask = ask  # held: the words contain its address
        self._used = 0
        self.words = np.array([0, 0, 0, id(ask)], np.int64)
        self._keys = self._values = np.zeros(0, np.int64)
        self._fill(known, 1 << 10)
        self._functions = functions

    @property
    def site(self) -> Any:
        """The site of a frame."""
        return self._functions.over(made_of.site, self)

    def add(self, address: int, value: int) -> None:
        """Store the site of an address."""
        if self._used * 2 > len(self._keys):
            known = dict(zip(self._keys.tolist(), self._values.tolist(), strict=True))
            known.pop(0, None)
            self._fill(known, 4 * len(self._keys))
        self._put(address, value)

    def _put(self, address: int, value: int) -> None:
        mask = len(self._keys) - 1
        place = (address ^ (address >> 17)) & mask
        while self._keys[place] not in {0, address}:
            place = (place + 1) & mask
        self._used += int(self._keys[place] == 0)
        self._values[place] = value
        self._keys[place] = address

    def _fill(self, known: dict[int, int], size: int) -> None:
        while size < 4 * len(known):
            size *= 2
        former = self._keys, self._values  # in use until the words are changed
        self._keys, self._values = np.zeros(size, np.int64), np.zeros(size, np.int64)
        self._used = 0
        for address, value in known.items():
            self._put(address, value)
        self.words[:3] = self._keys.ctypes.data, self._values.ctypes.data, size - 1
        del former


class Counter:
    """Returns odd numbers of a window."""

    def __init__(self, functions: Callables) -> None:
        self.words = np.array([0, 0, id(StopIteration)], np.int64)
        self._functions = functions

    @property
    def next(self) -> Any:
        """The next number."""
        return self._functions.over(made_of.number, self)

    def renew(self, first: int, end: int) -> None:
        """A new window."""
        self.words[:2] = first, end
