"""What the lanes of the timeline show: steps, modules and all calls, with their times."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from gradscope.analysis.graph.selection import Selection
from gradscope.scene.viewer.scene import viewer_scene
from gradscope.scene.viewer.text_columns import TextColumn, ViewerScene
from gradscope.trace.schema import NONE, Edge, GraphTask, Node, Op, Row, Step, Tensor
from gradscope.trace.trace import Trace
from tests.analysis.ranks.several_ranks import several_ranks
from tests.scene.viewer.training_steps import CALLS, STEP_NS, training_steps
from tests.shared.by_hand import trace_of

START = 300_000
"""When the first call of the training began, from which the page counts."""


def rows(scene: ViewerScene, table: str, *names: str) -> list[tuple[Any, ...]]:
    columns = []
    for name in names:
        column = scene.tables[table][name]
        if isinstance(column, TextColumn):
            columns.append([scene.texts[place] for place in column.places])
        else:
            columns.append(column.tolist())
    return list(zip(*columns, strict=True))


def test_the_first_step_begins_with_its_first_span_and_the_others_as_recorded() -> None:
    scene = viewer_scene(training_steps(3))

    begins = [STEP_NS + 10_000, 2 * STEP_NS, 3 * STEP_NS]
    assert rows(scene, "steps", "number", "rank", "begin", "end") == [
        (step, NONE, begin - START, STEP_NS * (step + 2) - START)
        for step, begin in enumerate(begins)
    ]
    assert rows(scene, "backwards", "in_step") == [(0,), (1,), (2,)]


def test_a_step_without_an_end_has_none() -> None:
    trace = trace_of(Step(0, 0, 5), Op(0, "mul", begin=7, end=9, step=0))

    assert rows(viewer_scene(trace), "steps", "begin", "end") == [(0, NONE)]


def test_a_page_of_one_step_has_only_that() -> None:
    scene = viewer_scene(training_steps(3), Selection(step=1))

    assert rows(scene, "steps", "number") == [(1,)]
    assert rows(scene, "backwards", "in_step") == [(0,)]
    assert {name for (name,) in rows(scene, "other_calls", "name")} == {"add_"}
    times = [each for (each,) in rows(scene, "module_runs", "begin")]
    assert min(times) >= STEP_NS * 2 - START
    assert max(times) <= STEP_NS * 3 - START


def test_steps_of_several_processes_have_ranks() -> None:
    scene = viewer_scene(several_ranks(2, steps=2))

    found = rows(scene, "steps", "number", "rank")
    assert sorted(found) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    of_backwards = rows(scene, "backwards", "step", "rank", "in_step")
    assert [found[row] for _, _, row in of_backwards] == [each[:2] for each in of_backwards]


def test_modules_last_from_their_first_to_their_last_call_and_node() -> None:
    scene = viewer_scene(training_steps(1))
    origin = STEP_NS - START

    found = rows(scene, "module_runs", "path", "in_backward", "thread", "begin", "end")
    expected = [
        ("", 0, 0, 150, 400),
        ("encoder", 0, 0, 150, 280),
        ("encoder.linear", 0, 0, 150, 250),
        ("head", 0, 0, 300, 400),
        ("", 1, 0, 520, 640),
        ("", 1, 1, 650, 780),
        ("encoder", 1, 0, 610, 640),
        ("encoder", 1, 1, 650, 780),
        ("encoder.linear", 1, 1, 650, 780),
        ("head", 1, 0, 520, 600),
    ]
    assert sorted(found, key=lambda row: (row[1], row[0], row[3])) == [
        (path, where, thread, origin + 1_000 * begin, origin + 1_000 * end)
        for path, where, thread, begin, end in expected
    ]


def test_no_module_lasts_beyond_its_step() -> None:
    scene = viewer_scene(training_steps(3))

    of_root = [
        (begin, end)
        for path, in_backward, begin, end in rows(
            scene, "module_runs", "path", "in_backward", "begin", "end"
        )
        if not path and not in_backward
    ]
    assert of_root == [
        (STEP_NS * step + 150_000 - START, STEP_NS * step + 400_000 - START) for step in (1, 2, 3)
    ]


def test_calls_have_their_times_and_no_call_is_left_out() -> None:
    trace = training_steps(2)
    scene = viewer_scene(trace)

    before, drawn = 0, []
    for name, is_data, idle, took in rows(scene, "calls", "name", "is_data", "idle", "op_ns"):
        if not is_data:
            drawn.append((name, before + idle, took))
            before += idle + took
    assert drawn == [
        (name, STEP_NS * (step + 1) + 1_000 * begin - START, 1_000 * (end - begin))
        for step in range(2)
        for name, _, begin, end in CALLS
    ]
    others = rows(scene, "other_calls", "name", "part", "begin")
    assert others[0] == ("uniform_", 0, 0)
    assert [row[:2] for row in others[1:]] == [("add_", 2)] * 2
    assert len(drawn) + len(others) == len(trace.table(Op))


def test_the_time_of_a_call_is_on_the_page_once() -> None:
    trace = training_steps(1)
    scene = viewer_scene(trace)

    assert rows(scene, "nodes", "op_ns") == [(-2,)] * 3
    took: dict[int, int] = dict(rows(scene, "calls", "made", "op_ns"))
    assert [took[node] for node in range(3)] == [100_000, 20_000, 100_000]


def test_the_time_of_a_call_that_is_not_in_the_forward_graph_stays_with_its_node() -> None:
    whole = training_steps(1)
    rows_of = [replace(row, phase=3) if row.id == 1 else row for row in whole.rows(Op)]
    others = [row for kind in (Step, GraphTask) for row in whole.rows(kind)]
    scene = viewer_scene(trace_of(*rows_of, *others, *_nodes(whole)))

    made = {node for (node,) in rows(scene, "calls", "made")}
    times = np.array([took for (took,) in rows(scene, "nodes", "op_ns")])
    assert made - {NONE} == {0, 2}
    assert times.tolist() == [-2, 20_000, -2]


def _nodes(trace: Trace) -> list[Row]:
    return [row for kind in (Node, Edge, Tensor) for row in trace.rows(kind)]
