"""What the page is told of a trace: the same as every other view, in columns."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from gradscope.analysis.findings import Finding, Severity
from gradscope.analysis.graph.selection import Selection
from gradscope.analysis.identity.names import node_names
from gradscope.analysis.identity.sites import Site
from gradscope.errors import EmptyTraceError, UnknownNameError
from gradscope.scene.viewer.groups import GroupForm
from gradscope.scene.viewer.nodes import scope_of
from gradscope.scene.viewer.reports import finding_table
from gradscope.scene.viewer.scene import viewer_scene
from gradscope.scene.viewer.text_columns import TextColumn, Texts, ViewerScene
from gradscope.trace.schema import (
    NONE,
    Edge,
    Frame,
    GraphTask,
    Mark,
    Module,
    Node,
    NodeBegin,
    NodeEnd,
    Push,
    Saved,
    Span,
    Stack,
    Step,
)
from gradscope.trace.trace import Trace
from tests.shared.by_hand import trace_of
from tests.shared.chains import chain
from tests.shared.example_traces import mean_of_squares, nan_in_backward, two_layers


def column(scene: ViewerScene, table: str, name: str) -> list[object]:
    found = scene.tables[table][name]
    if isinstance(found, TextColumn):
        return [scene.texts[place] for place in found.places]
    return found.tolist()


def loop_of(turns: int) -> Trace:
    """A chain that goes through the same two lines again and again."""
    rows = [Frame(0, "loop.py", 3, "", "h = step(h)"), Stack(0, 0), Stack(1, 0)]
    for node in range(2 * turns):
        rows.append(Node(node, ("MulBackward0", "TanhBackward0")[node % 2], stack=node % 2, t=node))
        rows.append(Edge(node, 0, node - 1))
    return trace_of(*rows, GraphTask(0, roots=(2 * turns - 1,), begin=0, end=9))


def test_nodes_have_the_names_that_they_have_everywhere() -> None:
    trace = two_layers()
    names = node_names(trace)
    scene = viewer_scene(trace)

    behind, seen = column(scene, "nodes", "behind"), Counter[str]()
    ordinals = [
        seen.update([name]) or seen[name] + ahead
        for name, ahead in zip(column(scene, "nodes", "name"), behind, strict=True)
    ]
    shown = [
        f"{name}#{ordinal}" if ordinal else name
        for name, ordinal in zip(column(scene, "nodes", "name"), ordinals, strict=True)
    ]
    assert shown == [names.of(node) for node in column(scene, "nodes", "id")]


def test_a_finding_leads_to_its_node() -> None:
    scene = viewer_scene(nan_in_backward())

    node = column(scene, "findings", "node")[0]
    bit = scene.facts["marks"].index("first Inf produced here")  # worst first, then earliest
    assert column(scene, "nodes", "marks")[node] >> bit & 1


def test_a_finding_without_a_node_leads_to_what_its_line_made() -> None:
    scope, texts = scope_of(chain(Mul=1, Exp=1), Selection()), Texts()
    found = [
        Finding("GS1", "slug", Severity.NOTE, "", Site(place), (), "", "", id="3fa2b1c0")
        for place in ("net.py:2", "net.py:9", "")
    ]

    table = finding_table(scope, found, texts)

    assert isinstance(table["node"], np.ndarray)
    assert table["node"].tolist() == [1, NONE, NONE]
    assert isinstance(table["id"], TextColumn)
    assert {texts.all()[place] for place in table["id"].places} == {"3fa2"}


def test_runs_are_in_the_order_in_which_they_began() -> None:
    nodes = [Node(id, f"{name}Backward0", id) for id, name in enumerate(("Mul", "Exp", "Log"))]
    events = [
        event
        for node, begin in ((1, 20), (0, 60), (2, 10))
        for event in (
            Push(task=0, node=node, t=1),
            NodeBegin(task=0, node=node, thread=node, t=begin),
            NodeEnd(task=0, node=node, thread=node, t=begin + 15),
        )
    ]
    in_time = sorted(events, key=lambda event: event.t)
    scene = viewer_scene(trace_of(*nodes, GraphTask(0, roots=(1, 0, 2), end=99), *in_time))

    assert column(scene, "runs", "node") == [2, 1, 0]
    assert column(scene, "runs", "begun") == sorted(column(scene, "runs", "begun"))  # type: ignore[type-var]


def test_a_long_loop_is_a_group_that_shows_its_first_and_last_turn() -> None:
    scene = viewer_scene(loop_of(1_000))

    titles = column(scene, "groups", "title")
    assert titles[1] == "×1,000 · h = step(h)"
    inside = [
        title
        for title, parent in zip(titles, column(scene, "groups", "parent"), strict=True)
        if parent == 1
    ]
    assert inside == [
        "iteration 1 of 1,000",
        "×998 · iterations 2 … 999",
        "iteration 1,000 of 1,000",
    ]


@pytest.mark.parametrize(
    ("paths", "titles"),
    [
        (
            "0123456789",
            ["×5 · modules 0–9", *(f"modules {n}–{n + 1}" for n in range(0, 10, 2))],
        ),
        ("ab" * 5, ["×5 · y = f(x)", *(f"iteration {n} of 5" for n in range(1, 6))]),
    ],
)
def test_turns_of_modules_are_called_by_them(paths: str, titles: list[str]) -> None:
    modules = {path: id for id, path in enumerate(sorted(set(paths)), 1)}
    rows = [Module(0, "", "Net"), Frame(0, "net.py", 3, "", "y = f(x)"), Stack(0, 0)]
    rows += [Module(id, path, "AB"[id % 2], parent=0) for path, id in modules.items()]
    for node, path in enumerate(paths):
        name = ("MulBackward0", "TanhBackward0")[node % 2]
        rows += [Node(node, name, stack=0, module=modules[path]), Edge(node, 0, node - 1)]
    scene = viewer_scene(trace_of(*rows, GraphTask(0, roots=(5,), begin=0, end=9)))

    forms = column(scene, "groups", "form")
    shown = zip(column(scene, "groups", "title"), forms, strict=True)
    kinds = (GroupForm.LOOP, GroupForm.TURN)
    assert sorted(title for title, form in shown if form in kinds) == sorted(titles)


def test_no_group_has_more_parts_than_a_picture_can_show() -> None:
    trace = trace_of(*(Node(id, f"Op{id}Backward0", t=id) for id in range(5_000)))
    scene = viewer_scene(trace)

    parts = np.concatenate([column(scene, "nodes", "group"), column(scene, "groups", "parent")[1:]])
    assert np.bincount(parts.astype(int)).max() <= 40
    assert len(column(scene, "nodes", "id")) == 5_000


def test_each_step_is_a_group_and_each_node_is_in_one() -> None:
    trace = trace_of(
        Step(0, 4, begin=0, end=9),
        Step(1, 5, begin=10, end=19),
        *(Node(id, f"Op{id % 7}Backward0", step=id // 20, t=id) for id in range(40)),
    )
    scene = viewer_scene(trace)

    steps = [
        title
        for title, form in zip(
            column(scene, "groups", "title"), column(scene, "groups", "form"), strict=True
        )
        if form == GroupForm.STEP
    ]
    assert steps == ["step 4", "step 5"]


def test_a_step_alone_holds_its_own_nodes_and_says_so() -> None:
    trace = trace_of(
        Step(0, 4, begin=0, end=9),
        Step(1, 5, begin=10, end=19),
        Node(0, "MulBackward0", step=0),
        Node(1, "AddBackward0", step=1, t=10),
        GraphTask(0, roots=(0,), step=0, begin=1, end=2),
        GraphTask(1, roots=(1,), step=1, begin=11, end=12),
        *(Span(n, f"of step {n}", begin=10 * n + 1, end=10 * n + 8) for n in range(3)),
        *(Mark(n, f"in step {n}", t=10 * n + 5) for n in range(3)),
        *(
            Saved(n, min(n, 1), "self", bytes=8, t=10 * n + 2, released=10 * n + 7)
            for n in range(3)
        ),
    )
    scene = viewer_scene(trace, Selection(step=5))

    assert column(scene, "nodes", "name") == ["AddBackward0"]
    assert column(scene, "backwards", "number") == [1]
    assert scene.facts["part"] == "step 5"
    assert column(scene, "spans", "name") == ["of step 1"]
    assert column(scene, "marks", "name") == ["in step 1"]
    assert column(scene, "memory", "bytes") == [0, 8, 0]


def test_where_to_begin_must_be_there() -> None:
    scene = viewer_scene(mean_of_squares(), Selection(around="MeanBackward0"))
    opens: Any = scene.facts["opens"]
    assert column(scene, "nodes", "name")[opens["node"]] == "MeanBackward0"
    with pytest.raises(UnknownNameError, match="did you mean MeanBackward0"):
        viewer_scene(mean_of_squares(), Selection(around="MeanBackward1"))


def test_a_trace_without_nodes_and_calls_has_no_page() -> None:
    with pytest.raises(EmptyTraceError, match="required a gradient, and this trace holds no forw"):
        viewer_scene(trace_of())
