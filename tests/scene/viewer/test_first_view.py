"""What the page shows first: the summary, the place of the worst finding, and limits."""

from __future__ import annotations

from typing import Any

from gradscope.analysis.report import inspect
from gradscope.scene.report import steps_in_words, verdict
from gradscope.scene.viewer.scene import viewer_scene
from gradscope.trace.trace import Trace
from tests.shared.example_traces import mean_of_squares, nan_in_backward, two_layers


def facts_of(trace: Trace) -> Any:
    return viewer_scene(trace).facts


def test_it_opens_at_the_node_of_the_worst_finding() -> None:
    trace = nan_in_backward()
    scene = viewer_scene(trace)
    opens: Any = scene.facts["opens"]
    worst = inspect(trace).findings[0]

    assert opens["finding"] == 0
    assert opens["node"] == scene.tables["findings"]["node"][0]
    assert worst.rule == scene.texts[scene.tables["findings"]["rule"].places[0]]  # type: ignore[union-attr]


def test_a_trace_without_findings_opens_at_its_first_backward() -> None:
    assert facts_of(mean_of_squares())["opens"] == {"node": -1, "backward": -1, "finding": -1}


def test_the_summary_has_the_figures_of_inspect() -> None:
    trace = two_layers(steps=2)
    report, summary = inspect(trace), facts_of(trace)["summary"]

    assert summary["verdict"] == verdict(report)
    assert summary["steps"] == report.summary.steps
    assert summary["times"][1] == report.summary.backward_ns
    assert summary["peak"] == report.summary.saved_peak_bytes


def test_slow_lines_are_those_of_inspect() -> None:
    trace = two_layers(steps=2)
    scene, lines = viewer_scene(trace), inspect(trace).lines
    table: Any = scene.tables["slow_lines"]

    assert [scene.texts[place] for place in table["place"].places] == [
        each.site.place for each in lines
    ]
    assert table["all"].tolist() == [each.ns for each in lines]


def test_limits_name_what_was_not_recorded() -> None:
    said = facts_of(mean_of_squares())["limits"]

    assert any("values of tensors are not recorded" in each for each in said)
    assert len(said) == len(set(said))


def test_steps_in_words() -> None:
    assert steps_in_words(()) == ""
    assert steps_in_words((3,)) == "step 3"
    assert steps_in_words((3, 7)) == "steps 3 and 7"
    assert steps_in_words((3, 4, 5)) == "steps 3 to 5"
    assert steps_in_words((3, 4, 9)) == "steps 3 … 9"
