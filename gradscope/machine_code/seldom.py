"""Samples repeated items: each is checked a few times, and then more and more rarely.

Each item is checked the first four times, then the eighth, the sixteenth and so on. So later
changes are noticed, and an item that occurs a million times is checked about twenty times.
"""

from __future__ import annotations

import numpy as np

from gradscope.machine_code.language import increase, load, store

MOST = 1 << 11
"""Largest number of different items that are counted."""

FEW = 4
"""Number of times that each item is checked in any case."""

# Words of a table: address of its entries, number of entries, limit, number of items without an
# entry. An entry: three numbers that identify the item, and its count.
USED, ROOM, IN_VAIN = 8, 16, 24
ENTRY = 4 * 8
PLACES = 2 * MOST - 1


def due(table: int, a: int, b: int, c: int) -> int:
    """Whether the item with these three numbers should be checked this time."""
    mixed = (a * 1000003 ^ b) * 1000003 ^ c
    place = (mixed ^ (mixed >> 17)) & PLACES
    entry = load(table) + ENTRY * place
    times = load(entry + 24)
    while times != 0 and (load(entry) != a or load(entry + 8) != b or load(entry + 16) != c):
        place = (place + 1) & PLACES
        entry = load(table) + ENTRY * place
        times = load(entry + 24)
    if times == 0:
        if load(table + USED) >= load(table + ROOM):
            increase(table + IN_VAIN, 1)
            return 0
        increase(table + USED, 1)
        store(entry, a)
        store(entry + 8, b)
        store(entry + 16, c)
    store(entry + 24, times + 1)
    return times < FEW or (times + 1) & times == 0


class Seldom:
    """Counts items, for `due` above and in Python."""

    def __init__(self) -> None:
        self._entries = np.zeros(4 * (PLACES + 1), np.int64)  # the words contain its address
        self.words = np.array([self._entries.ctypes.data, 0, MOST, 0], np.int64)
        self._times: dict[tuple[object, ...], int] = {}
        self._in_vain = 0

    @property
    def in_vain(self) -> int:
        """Number of items that could not be counted and were not checked."""
        return self._in_vain + int(self.words[IN_VAIN // 8])

    def due(self, *what: object) -> bool:
        """Whether to check this item this time."""
        times = self._times.get(what, 0)
        if not times and len(self._times) >= MOST:
            self._in_vain += 1
            return False
        self._times[what] = times + 1
        return times < FEW or (times + 1) & times == 0
