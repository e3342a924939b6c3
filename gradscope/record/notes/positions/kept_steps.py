"""The latest steps of a long run: see Note [Latest steps] in trace/file/latest/ring.py."""

from __future__ import annotations

from functools import partial
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Protocol

from gradscope.record.notes.positions.spikes import Spikes
from gradscope.trace.file.latest.let_go import LET_GO
from gradscope.trace.schema import NONE

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from gradscope.trace.file.latest.ring import RingWriter
    from gradscope.trace.ragged import Integers


class Flushing(Protocol):
    """A session: its notes are written by `flush`, which then calls `then`."""

    source: Any
    not_finite: Callable[[], tuple[int, int]]

    def ids(self, numbers: Any) -> Integers: ...
    def flush(self, then: Callable[[], None]) -> bool: ...


class KeptSteps:
    """Tells a ring where steps begin and which are kept, and writes how many were let go.

    `around`: also keep the steps around a "nan" or "inf" and around a "spike" of the gradients.
    """

    def __init__(
        self, ring: RingWriter, put: Callable[[str, Any], None], around: Collection[str] = ()
    ) -> None:
        self._ring = ring
        self._put = put
        self._many = -1  # number of recorded steps that have ended
        self._is_said = False
        self._around = around
        self._all_found = False  # by `keep_all`
        self._not_finite = 0  # number of tensors with NaN, or also with Inf, that were seen
        self._was_finite = True  # there were none between the last two boundaries
        self._from = self._until = NONE  # steps to keep, from the first to before the last
        self._boundary = 0  # the step of the last boundary
        self._spikes = Spikes() if "spike" in around else None
        if self._spikes is not None:
            ring.hear = self._spikes.hear

    def keep_all(self) -> None:
        """Keep all steps that are there, and some after them. May be called by any thread."""
        self._all_found = True

    def step_begins(self, session: Flushing, *, was_recorded: bool) -> None:
        """Called when a step begins; `was_recorded`: the one before it."""
        self._many += was_recorded
        if was_recorded and self._ring.is_due(self._many):
            if self._ring.is_near and not self._is_said:
                self._is_said = True
                self._put(LET_GO, self._facts())
            began, leaves = perf_counter_ns(), session.ids(session.source.leaves())
            session.flush(partial(self._begin_segment, session, leaves, began))

    def _begin_segment(self, session: Flushing, leaves: Integers, began: int) -> None:
        ring, keep = self._ring, self._ring.keep
        first, self._all_found = 0 if self._all_found else None, False
        spiked = self._spikes is not None and self._spikes.found()
        if first is None and (self._became_non_finite(session) or spiked):
            first = self._boundary - keep
        if first is not None:
            self._from = first if self._until == NONE else min(self._from, first)
            self._until = self._many + keep
        if self._until != NONE:
            ring.keep_from(self._from)
            if self._many >= self._until:
                self._until = NONE
        self._boundary = self._many
        ring.begin_segment(self._many, leaves, began)

    def _became_non_finite(self, session: Flushing) -> bool:
        """Whether there were NaN or Inf since the last boundary, but not since the one before."""
        not_finite, with_nan = session.not_finite()
        many = not_finite if "inf" in self._around else with_nan if "nan" in self._around else 0
        was_finite, self._was_finite = self._was_finite, many == self._not_finite
        self._not_finite = many
        return was_finite and not self._was_finite

    def end(self, leaves: Integers) -> None:
        """Called after the last flush: only the latest steps stay; `leaves`: those that exist."""
        if self._is_said:
            self._ring.end(self._many, leaves)
            self._put(LET_GO, self._facts())

    def _facts(self) -> dict[str, int]:
        return {"keep": self._ring.keep, "steps": self._ring.let_go}
