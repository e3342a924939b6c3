"""The latest steps of a long run: see Note [Latest steps] in trace/file/ring.py."""

from __future__ import annotations

from functools import partial
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from gradscope.record.session import Session
    from gradscope.trace.file.ring import RingWriter
    from gradscope.trace.ragged import Integers

LET_GO = "let_go"
"""The fact about the run that says that a recording lets steps go, and how many."""


class KeptSteps:
    """Tells a ring where steps begin, and writes which were let go."""

    def __init__(self, ring: RingWriter, put: Callable[[str, Any], None]) -> None:
        self._ring = ring
        self._put = put
        self._many = 0  # number of recorded steps that have begun
        self._is_said = False

    def step_begins(self, session: Session, *, was_recorded: bool) -> None:
        """Called when a step begins; `was_recorded`: the one before it."""
        self._many += was_recorded
        if was_recorded and self._ring.is_due(self._many):
            if self._ring.is_near and not self._is_said:
                self._is_said = True
                self._put(LET_GO, self._facts())
            began, leaves = perf_counter_ns(), session.ids(session.source.leaves())
            session.flush(partial(self._ring.begin_segment, self._many, leaves, began))

    def end(self, leaves: Integers) -> None:
        """Called after the last flush: only the latest steps stay; `leaves`: those that exist."""
        if self._is_said:
            self._ring.end(self._many, leaves)
            self._put(LET_GO, self._facts())

    def _facts(self) -> dict[str, int]:
        return {"keep": self._ring.keep, "steps": self._ring.let_go}
