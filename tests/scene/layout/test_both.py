"""A forward and a backward graph side by side: calls go up, beside the nodes they created."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradscope.render.formats.svg import FORMAT
from gradscope.render.theme import LIGHT
from gradscope.scene.choices import GraphOf
from gradscope.scene.graph.graph import graph_scene
from gradscope.scene.graph.options import GraphOptions
from gradscope.scene.layout.legible import legible_scene
from gradscope.scene.layout.picture import PictureLayout, layout
from gradscope.trace.load_save import load
from tests.shared.example_traces import two_layers

GALLERY = Path(__file__).parents[3] / "docs" / "gallery"


def both(name: str) -> tuple[list[tuple[float, float]], PictureLayout]:
    """The heights of the two ends of each tie; and the layout."""
    scene = legible_scene(load(GALLERY / name), GraphOptions(graph=GraphOf.BOTH))
    found = layout(scene)
    middles = {id: rect.y + rect.height / 2 for id, rect in found.placed.boxes.items()}
    return [(middles[tie.tail], middles[tie.head]) for tie in scene.ties], found


@pytest.mark.parametrize("name", ["double_backward.json", "mlp.json", "first_graph.json"])
def test_ties_lead_across_and_not_through_one_point(name: str) -> None:
    ties, found = both(name)

    assert len(ties) >= 4
    steepest = max(abs(one - other) for one, other in ties)
    assert steepest < found.placed.height / 3


def test_arrows_of_the_forward_graph_go_up_and_those_of_the_backward_down() -> None:
    scene = graph_scene(two_layers(), GraphOptions(graph=GraphOf.BOTH))
    placed = layout(scene).placed

    ups = set()
    for course in placed.courses:
        arrow = scene.arrows[course.link]
        tail, head = placed.boxes[arrow.tail], placed.boxes[arrow.head]
        (begin_x, begin_y), (end_x, end_y) = course.points[0], course.points[-1]
        assert tail.x <= begin_x <= tail.x + tail.width
        assert head.x <= end_x <= head.x + head.width
        if arrow.upward:
            assert (begin_y, end_y) == pytest.approx((tail.y, head.y + head.height), abs=0.2)
        else:
            assert (begin_y, end_y) == pytest.approx((tail.y + tail.height, head.y), abs=0.2)
        ups.add((arrow.tail[0], arrow.upward))
    assert ups == {("f", True), ("b", False)}


def test_the_tips_of_arrows_point_the_way_they_go() -> None:
    scene = graph_scene(two_layers(), GraphOptions(graph=GraphOf.BOTH))
    drawn = FORMAT.write(scene, LIGHT).content.decode()
    tips = [
        line.split('"')[1].split() for line in drawn.splitlines() if line.startswith("<polygon")
    ]
    ways = [float(tip.split(",")[1]) - float(base.split(",")[1]) for tip, base, _ in tips]

    assert {way < 0 for way in ways} == {True, False}
    assert sum(way < 0 for way in ways) == sum(arrow.upward for arrow in scene.arrows)
