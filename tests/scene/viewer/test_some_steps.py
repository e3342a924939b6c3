"""The page of a long run: steps that follow each other, around the one at which it opens."""

from __future__ import annotations

from typing import Any

import pytest

from gradscope.analysis.graph.selection import Selection
from gradscope.analysis.report import inspect
from gradscope.render.formats import format_called
from gradscope.scene.viewer import first_view
from gradscope.scene.viewer.scene import viewer_scene
from gradscope.scene.viewer.text_columns import ViewerScene
from gradscope.trace.schema import Node
from gradscope.trace.trace import Trace
from tests.scene.viewer.training_steps import training_steps

STEPS, IN_STEP, MOST = 40, 3, 31
"""Steps of the trace, nodes of a step, and the most nodes of a page: ten steps fit."""


@pytest.fixture
def trace(monkeypatch: pytest.MonkeyPatch) -> Trace:
    monkeypatch.setattr(first_view, "MOST_NODES", MOST)
    made = training_steps(STEPS)
    assert len(made.table(Node)) == STEPS * IN_STEP
    return made


def steps_of(scene: ViewerScene) -> list[int]:
    steps: Any = scene.tables["steps"]["number"]
    return sorted(set(steps.tolist()))


def test_without_a_finding_it_has_the_first_steps(trace: Trace) -> None:
    scene = viewer_scene(trace)

    assert steps_of(scene) == list(range(10))
    assert scene.rows("nodes") == 10 * IN_STEP
    assert scene.rows("backwards") == 10
    assert scene.facts["part"] == "steps 0 to 9"
    assert scene.facts["whole"]["nodes"] == STEPS * IN_STEP  # type: ignore[index,call-overload]


@pytest.mark.parametrize(("step", "first"), [(2, 0), (20, 15), (38, 30)])
def test_it_has_the_steps_around_the_node_to_open_at(trace: Trace, step: int, first: int) -> None:
    node = int(trace.table(Node)["id"][step * IN_STEP])

    scene = viewer_scene(trace, Selection(around=str(node)))

    assert steps_of(scene) == list(range(first, first + 10))
    opens: Any = scene.facts["opens"]
    assert scene.tables["nodes"]["id"][opens["node"]] == node  # type: ignore[index]


def test_the_steps_are_said_on_the_page_and_by_the_command(trace: Trace) -> None:
    scene = viewer_scene(trace)
    limits: Any = scene.facts["limits"]

    assert scene.notes == (limits[0],)
    assert "only steps 0 to 9 of 40 recorded steps" in limits[0]
    assert format_called("html").write(scene, None).notes == scene.notes


def test_the_findings_are_those_of_all_steps(trace: Trace) -> None:
    report = inspect(trace)
    scene = viewer_scene(trace)

    assert scene.rows("findings") == len(report.findings)
    assert scene.facts["summary"]["steps"] == STEPS  # type: ignore[index,call-overload]


def test_a_step_that_was_asked_for_and_a_short_run_are_whole(
    trace: Trace, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = viewer_scene(trace, Selection(step=30))
    monkeypatch.setattr(first_view, "MOST_NODES", STEPS * IN_STEP)
    every = viewer_scene(trace)

    assert (steps_of(one), one.notes) == ([30], ())
    assert (steps_of(every), every.notes) == (list(range(STEPS)), ())
    assert every.facts["part"] == ""
