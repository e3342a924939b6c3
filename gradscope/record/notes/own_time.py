"""Measures the time spent in gradscope itself while recording.

Notes of single calls are not measured: reading the clock twice would cost as much as the note.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from time import perf_counter_ns, thread_time_ns

STARTING, GRAPHS, WRITING = "starting", "graphs", "writing"


class OwnTimeClock:
    """Nanoseconds by purpose."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._spent: dict[str, int] = {}

    def add(self, what: str, ns: int) -> None:
        with self._lock:
            self._spent[what] = self._spent.get(what, 0) + ns

    @contextmanager
    def working(self, what: str) -> Iterator[None]:
        """A context that measures this thread's work, without waiting for other threads."""
        began = thread_time_ns()
        try:
            yield
        finally:
            self.add(what, thread_time_ns() - began)

    def facts(self, since: int) -> dict[str, int]:
        """All times, and `recorded`: the duration of the recording so far."""
        return {**dict(sorted(self._spent.items())), "recorded": perf_counter_ns() - since}
