"""What a recording does at the steps it leaves out: measures some, and joins rows of others."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Protocol

from gradscope.record.notes.positions.joined_rows import LEFT_OUT_ROWS, JoinedRows, fewer

if TYPE_CHECKING:
    from collections.abc import Callable

    from gradscope.record.acts.numbers.summaries.step_summaries import StepSummaries
    from gradscope.record.notes.positions.training_steps import Steps


class Pauses(Protocol):
    """Leaves out steps."""

    @property
    def is_paused(self) -> bool: ...


def follow_steps(
    steps: Steps,
    summaries: StepSummaries,
    left_out: Pauses,
    follows: Callable[[int], None],
    max_bytes: int | None,
) -> None:
    """Let steps be left out and summed up. `follows` is called before each step begins."""
    rows = fewer(LEFT_OUT_ROWS, max_bytes)
    steps.before = partial(_follows, summaries, follows)
    steps.joined = JoinedRows(rows, partial(_is_alone, summaries, left_out))
    summaries.step_follows()  # the first one


def _follows(summaries: StepSummaries, follows: Callable[[int], None], number: int) -> None:
    summaries.step_follows()
    follows(number)


def _is_alone(summaries: StepSummaries, left_out: Pauses) -> bool:
    """Whether the step that begins now is recorded or measured, so that it has its own row."""
    return summaries.reads_loss or not left_out.is_paused
