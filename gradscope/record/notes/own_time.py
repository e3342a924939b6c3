"""How much time gradscope itself took while it recorded, as far as that is measured.

What is noted call by call is not: two looks at the clock would cost as much as the note.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from time import perf_counter_ns, thread_time_ns

STARTING, GRAPHS, WRITING = "starting", "graphs", "writing"


class OwnTimeClock:
    """Nanoseconds by what they went into."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._spent: dict[str, int] = {}

    def add(self, what: str, ns: int) -> None:
        with self._lock:
            self._spent[what] = self._spent.get(what, 0) + ns

    @contextmanager
    def working(self, what: str) -> Iterator[None]:
        """What this thread works inside, without what it waits for others."""
        began = thread_time_ns()
        try:
            yield
        finally:
            self.add(what, thread_time_ns() - began)

    def facts(self, since: int) -> dict[str, int]:
        """All that was spent, and `recorded`: how long the recording has been under way."""
        return {**dict(sorted(self._spent.items())), "recorded": perf_counter_ns() - since}
