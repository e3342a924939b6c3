"""Steps, backwards and waits of a merged trace in the timeline and in pictures."""

from __future__ import annotations

from gradscope.analysis.graph.selection import Selection
from gradscope.analysis.report import inspect
from gradscope.scene.graph.graph import graph_scene
from gradscope.scene.graph.options import GraphOptions
from gradscope.scene.report import headline, report_tables
from gradscope.scene.timeline.steps import step_table
from gradscope.scene.timeline.timeline import TimelineOptions, timeline_scene
from tests.analysis.ranks.several_ranks import several_ranks
from tests.shared.example_traces import two_layers


def test_each_step_of_the_table_has_its_rank() -> None:
    table = step_table(several_ranks(2, steps=3), None, 40)

    assert table is not None
    assert [column.title for column in table.columns[:2]] == ["step", "rank"]
    assert [row[:2] for row in table.rows] == [
        (str(step), str(rank)) for step in range(3) for rank in range(2)
    ]


def test_a_selected_step_is_that_of_all_ranks_and_says_so() -> None:
    trace = several_ranks(2, steps=3)
    table = step_table(trace, 1, 40)
    scene = timeline_scene(trace, TimelineOptions(step=1))

    assert table is not None
    assert [row[:2] for row in table.rows] == [("1", "0"), ("1", "1")]
    assert table.note == "step 1 on 2 ranks; --rank N for one of them"
    assert sorted(task.title.partition(", ")[0] for task in scene.tasks) == ["rank 0", "rank 1"]


def test_waits_have_a_table_of_their_own() -> None:
    trace = several_ranks(3, late={(1, 2): 120_000})
    scene = timeline_scene(trace)

    assert scene.waits is not None
    assert [*scene.waits.rows] == [
        ("rank 0", "120 µs", "rank 1", "all_reduce", "2", ""),
        ("rank 2", "120 µs", "rank 1", "all_reduce", "2", ""),
    ]
    assert "inferred" in scene.waits.title
    assert scene.waits in report_tables(inspect(trace), 10)
    assert timeline_scene(trace, TimelineOptions(step=1)).waits is None
    assert timeline_scene(two_layers(steps=2)).waits is None


def test_the_headline_counts_steps_on_ranks() -> None:
    _, counted, times, _ = headline(inspect(several_ranks(2, steps=3)))

    assert counted.startswith("3 steps on 2 ranks, 6 backwards")
    assert times.endswith("(all ranks together)")


def test_a_picture_has_a_frame_for_each_rank() -> None:
    trace = several_ranks(2, steps=3)
    scene = graph_scene(trace, GraphOptions(selection=Selection(step=1)))

    assert {"rank 0", "rank 1"} <= {group.title for group in scene.groups}
    assert "step 1 on 2 ranks" in scene.title
    assert "step 1 on 2 ranks; use --rank N for one of them" in scene.notes
    first = graph_scene(trace, GraphOptions())
    assert any(note.startswith("step 0 of 3;") for note in first.notes)
