"""One definition of a step, for every view."""

from __future__ import annotations

import pytest

from gradscope.analysis.identity.steps import step_ids, steps
from gradscope.analysis.report import inspect
from gradscope.errors import UnknownNameError
from gradscope.scene.graph.graph import graph_scene
from gradscope.scene.timeline.timeline import TimelineOptions, timeline_scene
from gradscope.trace.schema import GraphTask, Node, NodeBegin, Op, Phase, Row, Span, Step
from gradscope.trace.trace import Trace
from tests.shared.by_hand import trace_of


def training(*more: Row, iterations: int = 2) -> Trace:
    """Iterations that an optimizer ended, and what was begun when the last of them ended."""
    made: list[Row] = []
    for step in range(iterations):
        made += [
            Op(step, "mul", node=step, step=step),
            Node(step, "MulBackward0", op=step, step=step),
            GraphTask(step, roots=(step,), step=step, begin=10 * step, end=10 * step + 5),
            NodeBegin(task=step, node=step),
            Span(step, "SGD", Phase.OPTIMIZER, step=step, begin=10 * step + 6, end=10 * step + 9),
        ]
    begun = [Step(step, step, begin=10 * step) for step in range(iterations + 1)]
    return trace_of(*begun, *made, *more)


def numbers(trace: Trace) -> list[int]:
    return [step.number for step in steps(trace)]


def test_what_comes_after_the_last_optimizer_step_is_a_step_if_a_backward_began_in_it() -> None:
    evaluation = [Op(9, "mul", step=2), Node(9, "MulBackward0", step=2)]

    assert numbers(training()) == [0, 1]
    assert numbers(training(*evaluation)) == [0, 1]
    assert numbers(training(*evaluation, GraphTask(9, roots=(9,), step=2))) == [0, 1, 2]


def test_a_step_without_backward_counts_when_the_program_said_so_itself() -> None:
    trace = trace_of(
        Step(0, 0),
        Step(1, 1, begin=5),
        Step(2, 2, begin=9),
        *(Op(i, "mul", step=i) for i in (1, 2)),
    )

    assert numbers(trace) == [1, 2]


def test_a_step_that_was_left_out_keeps_its_number_and_is_not_counted() -> None:
    trace = trace_of(
        *(Step(step, step, begin=step) for step in range(5)),
        *(Span(step, "SGD", Phase.OPTIMIZER, step=step) for step in range(4)),
        Op(0, "mul", step=2),
        GraphTask(0, step=2),
    )

    assert numbers(trace) == [2]
    assert step_ids(trace, 2) == [2]
    with pytest.raises(UnknownNameError, match="has no step 3: its steps are 2 to 2"):
        step_ids(trace, 3)


def test_every_view_counts_the_same_steps() -> None:
    trace = training()
    scene = graph_scene(trace)

    assert inspect(trace).summary.steps == 2
    assert scene.notes[0] == "step 0 of 2; use --step N for another one, --all for all of them"
    with pytest.raises(UnknownNameError, match="its steps are 0 to 1"):
        timeline_scene(trace, TimelineOptions(step=2))
