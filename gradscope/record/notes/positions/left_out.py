"""Steps that a recording leaves out: they were not selected, or there is no room."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gradscope.record.notes.positions.chosen_steps import ChosenSteps
    from gradscope.record.notes.positions.kept_steps import KeptSteps
    from gradscope.record.session import Session
    from gradscope.record.source import Pause
    from gradscope.trace.ragged import Integers


class LeftOutSteps:
    """Pauses a recording for steps other than `chosen`, and when there is no room for more.

    That is when `max_events` are recorded, or when the writer `is_full`.
    """

    def __init__(
        self, chosen: ChosenSteps | None, max_events: int | None, is_full: Callable[[], bool],
        kept: KeptSteps | None = None,
    ) -> None:  # fmt: skip
        self.kept = kept
        self._chosen = chosen
        self._max_events = max_events
        self._is_full = is_full
        self.are_expected = chosen is not None or max_events is not None
        """Whether steps are left out in most recordings like this one."""
        self._counts = {"unwanted": 0, "dropped": 0}
        self._why = ""  # why the current step, or the rest of it, is left out
        self._cut = False  # the current step was recorded up to the end of a backward
        self._in_part = 0  # number of such steps
        self._pause: Pause | None = None

    @property
    def is_paused(self) -> bool:
        """Whether nothing is recorded now."""
        return self._pause is not None

    def step_follows(self, session: Session, number: int) -> None:
        """Resume before this step begins, if requested: it does not include the time for that."""
        if self._pause is not None and self._is_wanted(number) and self._has_room(session):
            self._pause = None
            session.resume()

    def step_begins(self, session: Session, number: int) -> None:
        """Pause, if this step is left out, or let earlier ones go."""
        was_recorded = self._pause is None
        if self._why:  # only now is it known to have been a step: see analysis.identity.steps
            self._counts[self._why] += 1
        self._why, self._cut = "", False
        if self._pause is not None:
            self._pause.saw_backward = False
        wanted = self._is_wanted(number)
        if not (wanted and self._has_room(session)):
            self._leave_out(session, "dropped" if wanted else "unwanted")
        if self.kept is not None:
            self.kept.step_begins(session, was_recorded=was_recorded)

    def end(self, leaves: Integers) -> None:
        """Called after the last flush; `leaves`: ids of those that exist."""
        if self.kept is not None:
            self.kept.end(leaves)

    def backward_ended(self, session: Session) -> None:
        """Called at the end of a backward: pause if there is no room for the rest of the step."""
        if self._pause is None and not self._has_room(session):
            self._cut = True
            self._in_part += 1
            self._leave_out(session, "dropped")

    def counts(self) -> Iterator[tuple[str, dict[str, int]]]:
        """Reasons and numbers of left-out steps, including the current one if it is a step."""
        paused = self._pause
        is_step = paused is not None and (self._cut or paused.saw_backward)
        for why, before in self._counts.items():
            steps = before + (is_step and why == self._why)
            if steps:
                has_parts = why == "dropped" and self._in_part
                yield why, {"steps": steps} | ({"in_part": self._in_part} if has_parts else {})

    def _is_wanted(self, number: int) -> bool:
        return self._chosen is None or number in self._chosen

    def _has_room(self, session: Session) -> bool:
        if self._is_full():
            return False
        return self._max_events is None or session.source.events() < self._max_events

    def _leave_out(self, session: Session, why: str) -> None:
        """Leave out this step, or the rest of it."""
        self._why = why
        session.contexts.steps.may_be_left_out = True
        if self._pause is None:
            session.flush()
            self._pause = session.pause()
