"""What holds of every layout, whatever the graph."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from gradscope.scene.layout.nested import Link, Placed, Sized, nested
from tests.scene.layout.rules import SLACK, apart, arrows_lead_down
from tests.scene.layout.scenes import SCENES, scene
from tests.shared.searching import searching


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[Sized], list[Sized], list[Link]]:
    """Frames in frames, boxes in them, and links; mostly downwards."""
    frames: list[Sized] = []
    for number in range(draw(st.integers(0, 5))):
        parent = draw(st.sampled_from(["", *(frame.id for frame in frames)]))
        frames.append(Sized(f"f{number}", draw(st.integers(10, 300)), 20, parent))
    ids = ["", *(frame.id for frame in frames)]
    boxes = [
        Sized(
            f"b{number}",
            draw(st.integers(20, 250)),
            draw(st.integers(15, 120)),
            draw(st.sampled_from(ids)),
            f"box {number}",
        )
        for number in range(draw(st.integers(1, 16)))
    ]
    places = st.integers(0, len(boxes) - 1)
    links = [
        Link(boxes[tail].id, boxes[head].id, draw(st.sampled_from([0, 0, 40])), draw(st.booleans()))
        for tail, head in draw(st.lists(st.tuples(places, places), max_size=24))
        if tail != head
    ]
    return boxes, frames, links


def placed(graph: tuple[list[Sized], list[Sized], list[Link]], tallest: float) -> Placed:
    return nested(*graph, tallest=tallest)


@given(graphs(), st.sampled_from([150.0, 400.0, 5000.0]))
@searching(100)
def test_nothing_stands_on_anything_else(
    graph: tuple[list[Sized], list[Sized], list[Link]], tallest: float
) -> None:
    boxes, frames, _ = graph
    found = placed(graph, tallest)

    assert apart(found, [*boxes, *frames]) == []


@given(graphs(), st.sampled_from([150.0, 400.0, 5000.0]))
@searching(100)
def test_arrows_go_down_and_through_nothing(
    graph: tuple[list[Sized], list[Sized], list[Link]], tallest: float
) -> None:
    boxes, frames, links = graph
    found = placed(graph, tallest)

    assert arrows_lead_down(found, [*boxes, *frames], links) == []


def test_large_pictures_keep_the_rules_though_they_are_laid_out_with_less_care(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    boxes, frames, links = scene(15)
    usual = placed((boxes, frames, links), 400)
    monkeypatch.setattr("gradscope.scene.layout.nested.LARGE", 0)
    found = placed((boxes, frames, links), 400)

    assert found != usual
    assert apart(found, [*boxes, *frames]) == []
    assert arrows_lead_down(found, [*boxes, *frames], links) == []


def test_scenes_that_the_page_lays_out_too_keep_the_rules() -> None:
    for seed in SCENES:
        boxes, frames, links = scene(seed)
        found = placed((boxes, frames, links), 400)
        wrong = [
            *apart(found, [*boxes, *frames]),
            *arrows_lead_down(found, [*boxes, *frames], links),
        ]
        assert wrong == [], seed


@given(graphs(), st.sampled_from([150.0, 400.0, 5000.0]))
@searching(100)
def test_each_arrow_leaves_its_tail_and_comes_to_its_head(
    graph: tuple[list[Sized], list[Sized], list[Link]], tallest: float
) -> None:
    _, _, links = graph
    found = placed(graph, tallest)
    begun = {course.link: course.points[0] for course in found.courses if course.begins}
    ended = {course.link: course.points[-1] for course in found.courses if course.ends}

    for number, link in enumerate(links):
        if number in begun:
            rect, (x, y) = found.boxes[link.tail], begun[number]
            assert rect.x - SLACK <= x <= rect.x + rect.width + SLACK
            assert abs(y - rect.y - rect.height) <= SLACK
        if number in ended:
            rect, (x, y) = found.boxes[link.head], ended[number]
            assert rect.x - SLACK <= x <= rect.x + rect.width + SLACK
            assert abs(y - rect.y) <= SLACK
    # One that is cut may share its stub with others; then another of them is drawn.
    assert {links[n].tail for n in begun} == {link.tail for link in links}
    assert {links[n].head for n in ended} == {link.head for link in links}


@given(graphs())
@searching(40)
def test_the_same_graph_gives_the_same_layout(
    graph: tuple[list[Sized], list[Sized], list[Link]],
) -> None:
    assert placed(graph, 400) == placed(graph, 400)


# Some graphs -------------------------------------------------------------------------------------


def chain(length: int) -> tuple[list[Sized], list[Sized], list[Link]]:
    boxes = [Sized(f"b{number}", 100, 40, "", f"box {number}") for number in range(length)]
    return boxes, [], [Link(f"b{number}", f"b{number + 1}") for number in range(length - 1)]


def test_a_chain_goes_straight_down() -> None:
    found = placed(chain(5), 5000)

    assert {rect.x for rect in found.boxes.values()} == {0.0}
    assert [len(course.points) for course in found.courses] == [2] * 4
    assert found.stubs == []


def test_a_long_chain_goes_on_in_another_column_and_its_arrow_goes_up_between_them() -> None:
    found = placed(chain(10), 400)

    assert len({round(rect.x) for rect in found.boxes.values()}) == 2
    assert found.stubs == []
    (turned,) = [course for course in found.courses if course.turns]
    assert (turned.link, turned.begins, turned.ends) == (5, True, True)
    begin, end = found.boxes["b5"], found.boxes["b6"]
    (up,) = {x for (x, y), (_, to) in pairwise(turned.points) if y > to}
    assert begin.x + begin.width < up < end.x


def test_two_arrows_between_the_same_columns_do_not_cross() -> None:
    boxes, frames, links = chain(10)
    more = [*links, Link("b4", "b7"), Link("b3", "b8")]

    found = placed((boxes, frames, more), 500)

    turned = [course.points for course in found.courses if course.turns]
    lines = [line for points in turned for line in pairwise(points)]
    assert len(turned) == 3
    across = [line for line in lines if line[0][1] == line[1][1]]
    down = [line for line in lines if line[0][0] == line[1][0]]
    assert len(across) == 6
    for (x, y), (to_x, _) in across:
        left, right = sorted((x, to_x))
        crossed = [
            at for (at, a), (_, b) in down if left < at < right and min(a, b) < y < max(a, b)
        ]
        assert crossed == []


def test_too_many_arrows_between_columns_become_stubs() -> None:
    boxes, frames, links = chain(30)
    across = [Link(f"b{tail}", f"b{head}") for tail in range(14) for head in (16 + tail, 15 + tail)]

    found = placed((boxes, frames, [*links, *across]), 900)

    assert not found.turns
    assert "→ box 16" in [stub.text for stub in found.stubs]


def test_an_arrow_past_many_boxes_is_drawn_beside_them_as_a_whole() -> None:
    boxes, frames, links = chain(40)

    found = placed((boxes, frames, [*links, Link("b0", "b39")]), 5000)

    assert found.stubs == []
    course = next(each for each in found.courses if each.link == len(links))
    assert (course.begins, course.ends, course.turns) == (True, True, False)
    (beside,) = {
        x
        for (x, y), (to_x, to) in pairwise(course.points)
        if x == to_x and y <= found.boxes["b1"].y + SLACK and to > found.boxes["b38"].y
    }
    passed = [found.boxes[f"b{number}"] for number in range(1, 39)]
    assert not any(rect.x < beside < rect.x + rect.width for rect in passed)


def test_many_stubs_of_a_box_are_one_that_counts_them() -> None:
    boxes, frames, links = chain(40)
    hub = Sized("hub", 80, 30, "", "hub")

    found = placed(([*boxes, hub], frames, [*links, *(Link(box.id, "hub") for box in boxes)]), 5000)

    (counted,) = [stub.text for stub in found.stubs if stub.text.endswith("boxes →")]
    assert int(counted.split()[0]) + len(found.courses) - len(found.stubs) == len(links) + 40


def test_what_leads_back_up_goes_beside_the_column() -> None:
    boxes, frames, links = chain(3)

    found = placed((boxes, frames, [*links, Link("b2", "b0")]), 5000)

    assert found.stubs == []
    (back,) = [course for course in found.courses if course.turns]
    assert max(x for x, _ in back.points) > 100


def test_a_row_that_would_be_too_wide_goes_on_in_the_next() -> None:
    leaves = [Sized(f"l{number}", 200, 30, "", "leaf") for number in range(40)]
    links = [Link("top", leaf.id) for leaf in leaves]

    found = placed(([Sized("top", 100, 30, "", "top"), *leaves], [], links), 5000)

    assert found.width < 0.5 * 40 * 218
    assert len({rect.y for rect in found.boxes.values()}) > 3
