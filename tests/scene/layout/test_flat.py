"""What holds of every layout in arrays: of large pictures without frames."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given

from gradscope.scene.graph.graph import graph_scene
from gradscope.scene.graph.options import GraphOptions
from gradscope.scene.layout import picture
from gradscope.scene.layout.arrays.depths import depths
from gradscope.scene.layout.arrays.graph import Flat, in_order
from gradscope.scene.layout.arrays.placed import flat
from gradscope.scene.layout.nested import Link, Sized
from gradscope.trace.schema import Edge, Node
from tests.scene.layout.rules import SLACK, apart, arrows_lead_down
from tests.scene.layout.test_nested import chain, graphs
from tests.shared.by_hand import trace_of
from tests.shared.searching import searching

Graph = tuple[list[Sized], list[Sized], list[Link]]


def graph_of(boxes: int, links: list[tuple[int, int]]) -> Flat:
    sizes = np.full(boxes, 30.0)
    tails, heads = np.array(links, np.int64).reshape(-1, 2).T
    return Flat(sizes, sizes, sizes, tails, heads, np.zeros(len(links)))


@given(graphs())
@searching(100)
def test_nothing_stands_on_anything_else_and_arrows_go_through_nothing(graph: Graph) -> None:
    boxes, _, links = graph
    found = flat(boxes, links)

    alone = [replace(box, parent="") for box in boxes]
    assert apart(found, alone) == []
    assert arrows_lead_down(found, alone, links) == []


@given(graphs())
@searching(100)
def test_each_arrow_leaves_its_tail_and_comes_to_its_head(graph: Graph) -> None:
    boxes, _, links = graph
    found = flat(boxes, links)
    begun = {course.link: course.points[0] for course in found.courses if course.begins}
    ended = {course.link: course.points[-1] for course in found.courses if course.ends}

    for ends, lower in ((begun, True), (ended, False)):
        for number, (x, y) in ends.items():
            rect = found.boxes[links[number].tail if lower else links[number].head]
            assert rect.x - SLACK <= x <= rect.x + rect.width + SLACK
            assert abs(y - rect.y - rect.height * lower) <= SLACK
    assert {links[n].tail for n in begun} == {link.tail for link in links}
    assert {links[n].head for n in ended} == {link.head for link in links}
    assert found == flat(boxes, links)


def test_a_long_chain_goes_straight_down_in_columns_and_says_where_it_goes_on() -> None:
    boxes, _, links = chain(100)
    found = flat(boxes, links)

    columns = sorted({rect.x for rect in found.boxes.values()})
    assert 1 < len(columns) < 50
    assert len(found.stubs) == 2 * (len(columns) - 1)
    assert 1.0 < found.width / found.height < 2.5


def test_what_does_not_hang_together_stands_one_below_the_other() -> None:
    depth, _ = depths(graph_of(6, [(0, 1), (1, 2), (3, 4), (4, 5)]))

    assert depth.tolist() == [0, 1, 2, 3, 4, 5]


def test_what_joins_late_stands_just_above_where_it_joins() -> None:
    depth, _ = depths(graph_of(7, [(0, 1), (1, 2), (2, 3), (5, 6), (6, 3), (3, 4)]))

    assert depth.tolist() == [0, 1, 2, 3, 4, 1, 2]


def test_a_cycle_is_cut_once_and_said() -> None:
    boxes, _, _ = chain(3)
    found = flat(boxes, [Link("b0", "b1"), Link("b1", "b2"), Link("b2", "b0")])

    assert sorted(stub.text for stub in found.stubs) == ["box 2 →", "→ box 0"]


def test_an_order_is_by_run_then_by_wish_then_as_it_was() -> None:
    run = np.array([1, 0, 1, 0, 0])
    wish = np.array([-5.0, 2.5, -5.0, 1e6, 2.25])

    assert in_order(run, wish).tolist() == [4, 1, 3, 0, 2]
    assert in_order(run[:0], wish[:0]).tolist() == []


def test_many_boxes_without_frames_are_laid_out_so(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = [Node(id, f"Op{id}Backward0", id) for id in range(picture.FLAT + 1)]
    edges = [Edge(id, 0, id - 1) for id in range(1, len(nodes))]
    scene = graph_scene(trace_of(*nodes, *edges), GraphOptions(everything=True))
    monkeypatch.setattr(picture, "nested", lambda *_: pytest.fail("laid out piece by piece"))

    assert len(picture.layout(scene).placed.boxes) == len(nodes)
