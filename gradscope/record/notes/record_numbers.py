"""Assigns the numbers by which a recording identifies calls, nodes, tensors and storages.

# Note [Numbers]
One counter numbers everything, in steps of two. A call with one result uses one number for the
call, its node, its result and the result's storage. A tensor's `record_nr` is its number, plus one
if its gradient goes to the node with that number: so the number of an input shows where its
gradient goes. Calls, which mostly have a node, get the odd one of the two. Numbers start above
those of earlier recordings (`base`), so that a tensor last seen in one of them is known to be new.
In the trace they are halved and count from 0.

A thread may still report a call to a recording when another has begun. Numbers assigned then must
not look like those of the other: a recording that has ended assigns no new numbers, but repeats one
of its own, because they are no longer read.
"""

from __future__ import annotations

from functools import partial
from threading import RLock
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gradscope.machine_code.callables import Callables
    from gradscope.record.notes.c_functions.note_buffers import Counter

WINDOW = 1 << 9
"""Numbers that are assigned between two rests. See Note [Small lists] in log.py."""

LONG_WINDOW = 1 << 12
"""The size of a window if there are no lists to keep small."""


class RecordNumbers:
    """Assigns odd numbers, unique in the process, a window at a time."""

    _last = 0
    _lock = RLock()

    def __init__(self) -> None:
        self.base = RecordNumbers._last
        self.next: Any = None
        self._counter: Counter | None = None
        self._retired = False
        self._end = 0  # of the window
        self.renew()

    def renew(self) -> None:
        """Begin a new window."""
        size = 2 * (WINDOW if self._counter is None else LONG_WINDOW)
        with RecordNumbers._lock:
            if self._retired:
                return
            first = RecordNumbers._last + 2
            RecordNumbers._last += size
            self._end = RecordNumbers._last
            if self._counter is None:
                self.next = iter(range(first + 1, first + size, 2)).__next__
            else:
                self._counter.renew(first + 1, first + size)

    def reserve(self, count: int, *, alone: bool) -> int:
        """The first of this many consecutive numbers, minus one; later numbers are higher.

        If this thread is `alone`, the rest of the window is used first.
        """
        with RecordNumbers._lock:
            if alone and RecordNumbers._last == self._end and not self._retired:
                RecordNumbers._last = self.take()
            first = RecordNumbers._last + 2
            if not self._retired:
                RecordNumbers._last += 2 * count
                self.renew()
        return first

    def compile(self, functions: Callables, *, unused: bool) -> Counter:
        """Assign them by a C function from now on; `unused`: from the first number on."""
        from gradscope.record.notes.c_functions.note_buffers import Counter

        counter = Counter(functions)
        with RecordNumbers._lock:
            self._counter = counter
            if not self._retired:
                if unused:
                    counter.renew(self.base + 3, self.base + 2 + 2 * WINDOW)
                else:
                    self.renew()
                self.next = counter.next
        return counter

    def retire(self) -> None:
        """Assign no number that a later recording could mistake for its own."""
        with RecordNumbers._lock:
            self._retired = True
            self.next = partial(int, self.base + 3)
            if self._counter is not None:
                self._counter.renew(0, 0)

    def take(self) -> int:
        """The next number minus one, in any window."""
        while True:
            try:
                return int(self.next()) - 1
            except StopIteration:
                self.renew()
