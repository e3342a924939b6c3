"""Gives out the numbers by which a recording knows calls, nodes, tensors and storages.

# Note [Numbers]
One counter numbers everything, in steps of two. A call with one result takes one number for the
call, its node, its result and the result's storage. A tensor's `seen` is its number, plus one if
its gradient goes to the node of that number: so that an input's number says where its gradient
goes. Calls, which mostly have a node, are told the odd one of the two. Numbers start above those of
earlier recordings (`base`), which is how a tensor last seen then is known to be new. In the trace
they are halved and count from 0.
"""

from __future__ import annotations

from threading import RLock
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gradscope.record.compiled.functions import Functions
    from gradscope.record.compiled.parts import Counter

WINDOW = 1 << 9
"""How many numbers are given out between two rests. See Note [Small lists] in log.py."""

LONG_WINDOW = 1 << 12
"""The same when there are no lists to be kept small."""


class Numbers:
    """Gives out odd numbers, never the same twice in a process, a window at a time."""

    _last = 0
    _lock = RLock()

    def __init__(self) -> None:
        self.base = Numbers._last
        self.next: Any = None
        self._counter: Counter | None = None
        self.renew()

    def renew(self) -> None:
        """Begin a new window."""
        size = 2 * (WINDOW if self._counter is None else LONG_WINDOW)
        with Numbers._lock:
            first = Numbers._last + 2
            Numbers._last += size
        if self._counter is None:
            self.next = iter(range(first + 1, first + size, 2)).__next__
        else:
            self._counter.renew(first + 1, first + size)

    def compile(self, functions: Functions, *, unused: bool) -> Counter:
        """From now on, give them out by a C function; `unused`: from the first on."""
        from gradscope.record.compiled.parts import Counter

        self._counter = Counter(functions)
        if unused:
            self._counter.renew(self.base + 3, self.base + 2 + 2 * WINDOW)
        else:
            self.renew()
        self.next = self._counter.next
        return self._counter

    def take(self) -> int:
        """The next number less one, whatever window it is in."""
        while True:
            try:
                return int(self.next()) - 1
            except StopIteration:
                self.renew()
