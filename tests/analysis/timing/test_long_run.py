"""What summaries say about a long run: all its steps, and the first one that is not finite."""

from __future__ import annotations

from math import inf, nan
from typing import Any

import pytest

from gradscope.analysis.report import inspect
from gradscope.analysis.timing.long_run import LongRun, first_bad
from gradscope.render.terminal.cells import UNICODE
from gradscope.render.views.report import report_lines
from gradscope.scene.report import headline
from gradscope.scene.table_scenes import info_facts
from gradscope.scene.timeline.steps import step_table
from gradscope.scene.timeline.summaries import training_table
from gradscope.trace.schema import GraphTask, Node, Step, StepSummary
from gradscope.trace.trace import Trace
from tests.shared.by_hand import trace_of

FINE = StepSummary(
    loss=0.5, roots=1, parameters=2, gradient=0.1, weight=3.0, update=0.01
)  # fmt: skip
LOSS = StepSummary(loss=0.5, roots=1)


def run(*summaries: StepSummary | None, recorded: tuple[int, ...] = (0, 9)) -> Trace:
    """A run with these summaries of its steps, of which some are recorded."""
    steps = [Step(n, n, 100 * n, 100 * n + 99) for n in range(len(summaries))]
    tasks = [GraphTask(n, step=n, begin=100 * n, end=100 * n + 50) for n in recorded]
    nodes = [Node(n, "MulBackward0", step=n, t=100 * n) for n in recorded]
    rows = [replace_step(row, n) for n, row in enumerate(summaries) if row is not None]
    left_out = len(summaries) - len(recorded)
    meta: dict[str, Any] = {
        "level": "engine", "script": "train.py", "unwanted": {"steps": left_out},
        "summary": {"measured": 3},
    }  # fmt: skip
    return trace_of(*steps, *tasks, *nodes, *rows, meta=meta)


def replace_step(row: StepSummary, step: int) -> StepSummary:
    return changed(row, step=step)


def changed(row: StepSummary, **cells: Any) -> StepSummary:
    """The row with other values in these columns."""
    known = dict(zip(StepSummary.__match_args__, row.cells(), strict=True))
    return StepSummary(**{**known, **cells})


BAD_LOSS = changed(LOSS, loss=nan)
BAD = changed(FINE, loss=nan, gradient=nan, gradient_nan=4, weight_bad=4)


def test_a_step_that_was_left_out_is_named_with_the_command_that_records_it() -> None:
    trace = run(FINE, FINE, None, LOSS, None, None, BAD_LOSS, BAD, None, BAD)
    found = [each for each in inspect(trace).findings if each.rule == "GS202"]

    message = (
        "NaN: the loss was not finite in step 6, which was not recorded; all that was measured of "
        "step 3 was finite"
    )
    assert [each.message for each in found] == [message]
    assert "nothing was measured of steps 4 to 5" in found[0].why
    assert "--level values --steps 3:6 train.py" in found[0].fix
    assert found[0].steps == (6,)


HEALTHY: dict[str, list[StepSummary | None]] = {
    "finite": [FINE] * 10,
    "a GradScaler that skips steps": [
        FINE, changed(FINE, gradient_inf=3), changed(FINE, gradient_nan=1), *[FINE] * 7,
    ],
    "a batch that is skipped": [FINE, FINE, FINE, changed(LOSS, loss=inf), LOSS, *[FINE] * 5],
    "a mask of -inf among the parameters": [changed(FINE, weight_bad=6)] * 10,
    "nothing measured": [None] * 10,
    "no loss": [changed(FINE, loss=nan, roots=0)] * 10,
}  # fmt: skip


@pytest.mark.parametrize("name", HEALTHY)
def test_healthy_programs_have_no_finding(name: str) -> None:
    trace = run(*HEALTHY[name])

    assert first_bad(trace) is None
    assert [each.rule for each in inspect(trace).findings if each.rule == "GS202"] == []


def test_the_first_step_of_the_harm_is_named_and_not_an_earlier_one_without() -> None:
    overflow = changed(FINE, gradient_inf=1)
    found = first_bad(run(FINE, overflow, FINE, FINE, overflow, BAD, BAD, BAD, BAD, BAD))

    assert found is not None
    assert (found.first.number, found.before and found.before.number) == (4, 3)
    assert found.first.kind == "Inf"


def test_a_recorded_step_is_left_to_other_rules() -> None:
    trace = run(*[FINE] * 9, BAD)

    assert [each.rule for each in inspect(trace).findings if each.rule == "GS202"] == []


def test_views_count_all_steps_and_say_how_many_were_recorded() -> None:
    trace = run(FINE, FINE, None, LOSS, LOSS, None, FINE, LOSS, None, LOSS)
    report = inspect(trace)
    table = training_table(trace.once(LongRun), 8)
    listed = step_table(trace, None, 40)

    assert headline(report)[1].startswith("2 of 10 steps")
    assert listed is not None
    assert listed.note.startswith("10 steps ran, 2 were recorded")
    facts = dict(info_facts(trace, "trace.json", 10).facts)
    assert facts["steps"] == "10 steps ran, 2 were recorded"
    words = "measured in 3 of 10 steps, the loss in 7: as many as take 1% of the time"
    assert facts["summary"] == words
    assert table is not None
    assert table.rows == (
        ("0", "0.5", "0.1", "3", "1.00%"), ("1", "0.5", "0.1", "3", "1.00%"),
        ("6", "0.5", "0.1", "3", "1.00%"), ("9", "0.5", "", "", ""),
    )  # fmt: skip
    assert table.note == words
    shown = "\n".join(line.plain for line in report_lines(report, 100, UNICODE, 8))
    assert "training" in shown


def test_a_short_run_that_was_recorded_whole_has_no_table() -> None:
    trace = run(*[FINE] * 3, recorded=(0, 1, 2))

    assert training_table(trace.once(LongRun), 8) is None
    assert not trace.once(LongRun).has_left_out


def test_rows_of_several_steps_count_as_several_in_a_trace_that_was_cut_off() -> None:
    trace = trace_of(
        Step(0, 0, 0, 10), Step(1, 1, 10, 500, joined=63), Step(2, 65, 500), GraphTask(0, step=0)
    )
    cut = Trace(trace.tables, truncated=True)

    assert LongRun(cut).steps == 65
