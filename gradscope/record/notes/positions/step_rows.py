"""What a recording does at the steps it leaves out: measures some, and joins rows of others."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from gradscope.record.notes.positions.joined_rows import LEFT_OUT_ROWS, JoinedRows, fewer

if TYPE_CHECKING:
    from collections.abc import Callable

    from gradscope.record.acts.summaries.step_summaries import Limits
    from gradscope.record.notes.positions.left_out import LeftOutSteps
    from gradscope.record.session import Session


def follow_steps(
    session: Session, left_out: LeftOutSteps, options: Limits, is_full: Callable[[], bool]
) -> None:
    """Let the steps of a session be left out and summed up."""
    steps, joined = session.contexts.steps, JoinedRows(fewer(LEFT_OUT_ROWS, options.max_bytes))
    session.summaries.keep(options, is_full)
    steps.before = partial(_follows, session, left_out)
    steps.joins = partial(_joins, session, left_out, joined)
    steps.may_be_left_out = left_out.are_expected
    session.summaries.step_follows()  # the first one


def _follows(session: Session, left_out: LeftOutSteps, number: int) -> None:
    session.summaries.step_follows()
    left_out.step_follows(session, number)


def _joins(session: Session, left_out: LeftOutSteps, joined: JoinedRows) -> bool:
    """Whether the step that begins now is left out, like the one before, and shares its row."""
    alone = session.summaries.needs_row or not left_out.is_paused
    return joined.joins(alone=alone)
