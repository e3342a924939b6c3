"""Steps, backwards and waits of a merged trace in the timeline and in pictures."""

from __future__ import annotations

from gradscope.analysis.graph.selection import Selection
from gradscope.analysis.ranks.heat import rank_steps
from gradscope.analysis.report import inspect
from gradscope.scene.choices import RankHeat
from gradscope.scene.graph.graph import graph_scene
from gradscope.scene.graph.options import GraphOptions
from gradscope.scene.report import headline, report_tables
from gradscope.scene.timeline.rank_heat import (
    MOST,
    NOT_RECORDED,
    SAME,
    HeatRow,
    heat_facts,
    heat_scene,
)
from gradscope.scene.timeline.rank_lanes import rank_lanes
from gradscope.scene.timeline.steps import step_table
from gradscope.scene.timeline.timeline import TimelineOptions, timeline_scene
from gradscope.trace.schema import NONE
from tests.analysis.ranks.several_ranks import MS, several_ranks
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
        ("ranks 0, 2", "up to 120 µs", "rank 1", "all_reduce", "2", ""),
    ]
    assert "inferred" in scene.waits.title
    assert scene.waits in report_tables(inspect(trace), 10)
    assert timeline_scene(trace, TimelineOptions(step=1)).waits is None
    assert timeline_scene(two_layers(steps=2)).waits is None


def test_many_ranks_that_waited_for_one_are_one_row() -> None:
    late = {(rank, 1): 1_000 * (rank % 2) for rank in range(64)} | {(63, 1): 50_000}
    scene = timeline_scene(several_ranks(64, late=late))

    assert scene.waits is not None
    assert [row[:3] for row in scene.waits.rows] == [("ranks 0 to 62", "up to 50.0 µs", "rank 63")]
    late = {(rank, 1): 1_000 for rank in range(0, 64, 2)}
    scene = timeline_scene(several_ranks(64, late=late))
    assert scene.waits is not None
    assert [row[:2] for row in scene.waits.rows] == [("32 ranks", "up to 1.00 µs")]


def test_ranks_with_the_same_levels_are_one_row() -> None:
    found = rank_steps(several_ranks(9, slow={(7, 1): 5 * MS}))
    assert found is not None
    scene = heat_scene(found, RankHeat.TIME, 60, 14)

    assert scene.columns == (0, 1, 2)
    assert scene.rows == (
        HeatRow("ranks 0 to 6, 8", (SAME, SAME, SAME)),
        HeatRow("rank 7", (SAME, MOST, SAME)),
    )
    assert scene.notes == ("slowest: rank 7, step 1, 5.00 ms, 5 × the median",)
    assert heat_facts(found, RankHeat.TIME)["rows"] == [[0, 1, 2, 3, 4, 5, 6, 8], [7]]


def test_many_different_ranks_fit_into_few_rows() -> None:
    slow = {(rank, rank): (2 + rank % 3) * MS for rank in range(20)}
    found = rank_steps(several_ranks(24, steps=20, slow=slow))
    assert found is not None
    scene = heat_scene(found, RankHeat.TIME, 10, 6)

    assert scene.columns == tuple(range(0, 20, 2))
    assert [row.title for row in scene.rows] == [
        "rank 2", "rank 5", "rank 8", "rank 11", "ranks 20 to 23", "highest of 16 other ranks",
    ]  # fmt: skip
    assert scene.rows[0].levels == (SAME, MOST, *[SAME] * 8)
    assert "a column is 2 steps, and shows the highest level" in scene.notes
    assert len(heat_scene(found, RankHeat.TIME, 60, 0).rows) == 21


def test_what_was_not_recorded_is_said() -> None:
    found = rank_steps(several_ranks(2))
    assert found is not None

    for what in (RankHeat.TIME, RankHeat.GRADIENT, RankHeat.NON_FINITE):
        scene = heat_scene(found, what, 60, 14)
        assert [row.levels for row in scene.rows] == [(NONE,) * 3]
        assert scene.notes == (NOT_RECORDED[what],)
    assert heat_facts(found, RankHeat.GRADIENT)["cells"] == [[None] * 3] * 2


def test_groups_that_differ_are_rows() -> None:
    found = rank_steps(several_ranks(3))
    assert found is not None
    scene = heat_scene(found, RankHeat.ALIKE, 60, 14)

    assert [row.levels[0] - SAME for row in scene.rows] == [0, 1, 2]
    assert scene.notes == ("first difference: rank 1, step 0",)


def test_the_timeline_of_ranks_begins_with_them() -> None:
    trace = several_ranks(2, slow={})

    assert timeline_scene(trace).steps is None
    assert timeline_scene(trace).ranks is not None
    for options in (TimelineOptions(step=1), TimelineOptions(rows=0)):
        scene = timeline_scene(trace, options)
        assert (scene.ranks, scene.steps is None) == (None, False)
    assert timeline_scene(two_layers(steps=2)).ranks is None


def test_a_step_has_a_lane_for_each_rank_with_its_waits() -> None:
    trace = several_ranks(3, late={(1, 2): 120_000})
    scene = rank_lanes(trace, 2)

    assert scene is not None
    assert [(lane.title, lane.words) for lane in scene.lanes] == [
        ("rank 0", "waited 120 µs"),
        ("rank 1", ""),
        ("rank 2", "waited 120 µs"),
    ]
    assert [[bar.end - bar.begin for bar in lane.asleep] for lane in scene.lanes] == [
        [120_000], [], [120_000],
    ]  # fmt: skip
    assert all(lane.spans for lane in scene.lanes)
    assert timeline_scene(trace, TimelineOptions(step=2)).rank_lanes == scene
    assert timeline_scene(trace).rank_lanes is None
    assert rank_lanes(two_layers(steps=2), 1) is None


def test_of_many_ranks_those_with_the_longest_waits_have_lanes() -> None:
    trace = several_ranks(40, late={(7, 1): 50_000, (30, 1): 40_000}, slow={})
    scene = rank_lanes(trace, 1)

    assert scene is not None
    shown = [lane.title for lane in scene.lanes]
    assert (len(shown), "rank 7" in shown, "rank 30" in shown) == (16, True, False)
    assert scene.notes == (
        "showing 16 of 40 ranks, those with the longest waits; --rank N for one",
    )
    table = step_table(trace, 1, 10)
    assert table is not None
    assert len(table.rows) == 8
    assert table.note == "and 32 more; --all for all; step 1 on 40 ranks; --rank N for one of them"


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
