"""No trace breaks a view: it is shown, or a GradscopeError says why not, whatever its numbers."""

from __future__ import annotations

import json
import warnings
from xml.etree import ElementTree as ET

import pytest
from hypothesis import HealthCheck, given, strategies as st

from gradscope.analysis.graph.selection import Selection
from gradscope.analysis.report import inspect
from gradscope.errors import GradscopeError
from gradscope.render.formats import format_called, format_names
from gradscope.render.pictures import whole_scene
from gradscope.render.reports.json import report_json
from gradscope.render.terminal.cells import PLAIN
from gradscope.render.theme import LIGHT
from gradscope.render.views.report import report_lines
from gradscope.render.views.tables import facts_lines, table_lines
from gradscope.render.views.timeline import event_lines, timeline_lines
from gradscope.scene.choices import ColorBy, GraphOf
from gradscope.scene.graph.graph import graph_scene
from gradscope.scene.graph.options import GraphOptions
from gradscope.scene.table_scenes import info_facts, info_tables
from gradscope.scene.timeline.events import event_list
from gradscope.scene.timeline.timeline import TimelineOptions, timeline_scene
from gradscope.trace import schema
from gradscope.trace.trace import Trace
from tests.render.views.test_timeline import text_of
from tests.shared.by_hand import trace_of
from tests.shared.searching import searching
from tests.shared.strategies import tables, traces

READ_TOGETHER = (
    schema.Node,
    schema.Edge,
    schema.GraphTask,
    schema.Step,
    schema.Module,
    schema.Saved,
    schema.Value,
    schema.Push,
    schema.NodeBegin,
    schema.NodeEnd,
    schema.HookBegin,
    schema.HookEnd,
    schema.Decrement,
    schema.Op,
    schema.Tensor,
    schema.Version,
)
together = st.tuples(*map(tables, READ_TOGETHER)).map(
    lambda lists: trace_of(*(row for each in lists for row in each))
)
PATIENT = searching(40, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


@given(trace=traces() | together, options=st.builds(
    GraphOptions,
    selection=st.builds(
        Selection,
        step=st.none() | st.integers(0, 3),
        backward=st.none() | st.integers(0, 3),
        around=st.none() | st.sampled_from(["0", "MulBackward0", "MulBackward0#1", "", "#1"]),
        hops=st.sampled_from([0, 1, 10**9]),
        path_to=st.none() | st.sampled_from(["0", "MulBackward0"]),
        critical=st.booleans(),
    ),
    color_by=st.sampled_from(ColorBy),
    saved=st.booleans(),
    tensors=st.booleans(),
    merge_leaves=st.booleans(),
    everything=st.booleans(),
    limit=st.integers(1, 30),
    graph=st.none() | st.sampled_from(GraphOf),
))  # fmt: skip
@PATIENT
def test_any_trace_is_drawn_or_refused(trace: Trace, options: GraphOptions) -> None:
    try:
        scene = graph_scene(trace, options)
    except GradscopeError:
        return

    ids = [box.id for box in scene.boxes]
    assert len(set(ids)) == len(ids)
    assert {end for arrow in scene.arrows for end in (arrow.tail, arrow.head)} <= set(ids)
    assert {box.group for box in scene.boxes} <= {"", *(group.id for group in scene.groups)}
    assert json.loads(format_called("json").write(scene, LIGHT).content)
    assert format_called("dot").write(scene, LIGHT).content.startswith(b"digraph")
    assert ET.fromstring(format_called("svg").write(scene, LIGHT).content).tag.endswith("svg")


@given(traces() | together)
@PATIENT
def test_any_trace_is_shown_or_refused(trace: Trace) -> None:
    everything = TimelineOptions(rows=0, tasks=0)
    for lines in (
        lambda: timeline_lines(timeline_scene(trace, everything), 80, PLAIN),
        lambda: event_lines(event_list(trace, everything, 0), 80, PLAIN),
    ):
        try:
            text = text_of(lines())
        except GradscopeError as error:
            text = str(error)
        assert text


@given(traces() | together)
@PATIENT
def test_any_trace_is_written_for_other_programs_or_refused(trace: Trace) -> None:
    for name in format_names():
        format = format_called(name)
        if format.takes in {"tracks", "network"}:
            try:
                scene = whole_scene(trace, GraphOptions(), format.takes)
            except GradscopeError:
                continue
            assert format.write(scene, None).content


@given(traces() | together)
@PATIENT
def test_any_trace_is_inspected(trace: Trace) -> None:
    report = inspect(trace)

    assert text_of(report_lines(report, 80, PLAIN, 0))
    assert json.loads(report_json(report, trace.notes))["version"] == 1
    assert text_of(facts_lines(info_facts(trace, "t.json", 10), 80, PLAIN))
    assert all(text_of(table_lines(table, 80, PLAIN)) for table in info_tables(trace))


@pytest.fixture(autouse=True)
def quiet() -> object:
    """Sums of hostile numbers overflow; NumPy says so, and nothing more happens."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        yield
