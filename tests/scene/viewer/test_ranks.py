"""A merged trace as the page has it: rank by rank."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradscope.analysis.graph.selection import Selection
from gradscope.analysis.ranks.merging.merge import merged
from gradscope.scene.viewer.groups import GroupForm
from gradscope.scene.viewer.scene import viewer_scene
from gradscope.trace.schema import NONE
from gradscope.trace.trace import Trace
from tests.analysis.ranks.several_ranks import several_ranks
from tests.shared.example_traces import (
    mean_of_squares_program,
    nan_in_backward_program,
    two_layers,
    two_layers_program,
)


def table_of(trace: Trace, name: str, selection: Selection | None = None) -> dict[str, Any]:
    """Columns of a table of the page; texts in words."""
    scene = viewer_scene(trace, selection)
    return {
        key: column.tolist()
        if isinstance(column, np.ndarray)
        else [scene.texts[each] for each in column.places.tolist()]
        for key, column in scene.tables[name].items()
    }


def test_backwards_and_their_events_follow_each_other_rank_by_rank() -> None:
    trace = several_ranks(2, steps=3)
    backwards, events = table_of(trace, "backwards"), table_of(trace, "events")

    assert backwards["rank"] == [0, 0, 0, 1, 1, 1]
    assert backwards["step"] == [0, 1, 2, 0, 1, 2]
    assert all(title.startswith("backward ") for title in backwards["title"])
    for row, (first, last) in enumerate(zip(backwards["first"], backwards["last"], strict=True)):
        assert set(events["backward"][first : last + 1]) == {row}
        times = events["t"][first : last + 1]
        assert times == sorted(times)
    runs = table_of(trace, "runs")
    for name in ("begun", "ended"):
        owners = [events["backward"][event] for event in runs[name]]
        assert owners == runs["backward"]


def test_steps_are_in_the_groups_of_their_ranks() -> None:
    for name in ("groups", "call_groups"):
        groups = table_of(several_ranks(2, steps=3), name)
        form = groups["form"]
        ranks = [row for row, each in enumerate(form) if each == GroupForm.RANK]
        steps = [row for row, each in enumerate(form) if each == GroupForm.STEP]

        assert [groups["title"][row] for row in ranks] == ["rank 0", "rank 1"]
        assert [groups["title"][row] for row in steps] == [
            f"rank {rank}, step {step}" for rank in (0, 1) for step in (0, 1, 2)
        ]
        assert [groups["parent"][row] for row in steps] == [ranks[0]] * 3 + [ranks[1]] * 3


def test_many_ranks_with_the_same_graph_are_folded() -> None:
    groups = table_of(several_ranks(16, steps=1, alike=True), "groups")
    loops = [row for row, form in enumerate(groups["form"]) if form == GroupForm.LOOP]

    assert "×16 · rank 0 to rank 15" in [groups["title"][row] for row in loops]


def test_one_step_is_shown_of_all_ranks() -> None:
    trace = several_ranks(2, steps=3)

    assert viewer_scene(trace, Selection(step=1)).facts["part"] == "step 1 on 2 ranks"
    backwards = table_of(trace, "backwards", Selection(step=1))
    assert (backwards["rank"], backwards["step"]) == ([0, 1], [1, 1])


def test_waits_are_on_the_page_and_one_process_has_no_ranks() -> None:
    waits = table_of(several_ranks(2, late={(1, 2): 120_000}), "waits")

    assert [waits[name] for name in ("rank", "on", "name", "step", "ns")] == [
        [0], [1], ["all_reduce"], [2], [120_000],
    ]  # fmt: skip
    alone = viewer_scene(two_layers(steps=2))
    assert alone.facts["ranks"] == []
    assert table_of(two_layers(steps=2), "backwards")["rank"] == [NONE, NONE]


def test_the_page_opens_at_the_rank_of_the_worst_finding() -> None:
    right, wrong = two_layers_program(steps=1), nan_in_backward_program()
    right.level = wrong.level
    scene = viewer_scene(merged([right.trace(rank=0), wrong.trace(rank=1)]))
    opens: Any = scene.facts["opens"]
    tables = scene.tables
    group = np.asarray(tables["nodes"]["group"])[opens["node"]]

    assert opens["finding"] == 0
    assert np.asarray(tables["groups"]["rank"])[group] == 1
    assert opens["backward"] == NONE or np.asarray(tables["backwards"]["rank"])[opens["backward"]]
    where = tables["findings"]["where"]
    assert scene.texts[where.places[0]].startswith("rank 1")  # type: ignore[union-attr]


def test_each_process_has_its_own_memory() -> None:
    programs = mean_of_squares_program(), mean_of_squares_program()
    traces = [program.trace(rank=rank, host="one") for rank, program in enumerate(programs)]
    alone, both = table_of(traces[0], "memory"), table_of(merged(traces), "memory")

    assert max(alone["bytes"]) > 0
    for rank in (0, 1):
        mine = [row for row, each in enumerate(both["rank"]) if each == rank]
        assert [both["bytes"][row] for row in mine] == alone["bytes"]
