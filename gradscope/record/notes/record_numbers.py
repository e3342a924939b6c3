"""Gives out the numbers by which a recording knows calls, nodes, tensors and storages.

# Note [Numbers]
One counter numbers everything, in steps of two. A call with one result takes one number for the
call, its node, its result and the result's storage. A tensor's `record_nr` is its number, plus one
if its gradient goes to the node of that number: so that an input's number says where its gradient
goes. Calls, which mostly have a node, are told the odd one of the two. Numbers start above those of
earlier recordings (`base`), which is how a tensor last seen then is known to be new. In the trace
they are halved and count from 0.

A thread may still tell a recording of a call when another has begun. What it gives a number then
must not look as if the other had given it: a recording that has ended gives out no new numbers, but
one of its own again and again, since nobody reads them any more.
"""

from __future__ import annotations

from functools import partial
from threading import RLock
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gradscope.machine_code.callables import Callables
    from gradscope.record.notes.c_functions.note_buffers import Counter

WINDOW = 1 << 9
"""How many numbers are given out between two rests. See Note [Small lists] in log.py."""

LONG_WINDOW = 1 << 12
"""The same when there are no lists to be kept small."""


class RecordNumbers:
    """Gives out odd numbers, never the same twice in a process, a window at a time."""

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
        """The first of so many numbers in a row, less one; what comes later is higher.

        Where this thread is `alone`, what is left of the window is used up first.
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
        """From now on, give them out by a C function; `unused`: from the first on."""
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
        """Give out no number that a later recording may take for its own."""
        with RecordNumbers._lock:
            self._retired = True
            self.next = partial(int, self.base + 3)
            if self._counter is not None:
                self._counter.renew(0, 0)

    def take(self) -> int:
        """The next number less one, whatever window it is in."""
        while True:
            try:
                return int(self.next()) - 1
            except StopIteration:
                self.renew()
