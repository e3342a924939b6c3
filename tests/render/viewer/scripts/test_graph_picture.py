"""The graph on the page: arrows between columns, and colors by structure."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gradscope.render.theme import LIGHT, Colour, structure_paint
from gradscope.scene.graph.graph import graph_scene
from gradscope.scene.graph.options import GraphOptions
from gradscope.scene.kinds import Form
from gradscope.trace.load_save import load
from gradscope.trace.trace import Trace
from tests.render.viewer.settled import settle
from tests.render.viewer.test_in_browser import app, box_at
from tests.shared.browsing import check_accessible, needs_axe
from tests.shared.example_traces import shared_weight, two_layers

pytestmark = pytest.mark.browser

Opens = Callable[..., Any]
GALLERY = Path(__file__).parents[4] / "docs" / "gallery"

PIXELS = """([x, y, around]) => {
  const { view } = window.gradscope;
  const canvas = document.getElementById("graph");
  const at = (each, place) => Math.round((view[place] + each * view.k) * devicePixelRatio);
  const [wide, copy] = [2 * around + 1, document.createElement("canvas")];
  [copy.width, copy.height] = [wide, 1];
  const context = copy.getContext("2d");
  context.drawImage(canvas, at(x, "x") - around, at(y, "y"), wide, 1, 0, 0, wide, 1);
  const data = context.getImageData(0, 0, wide, 1).data;
  const hex = place => "#" + [...data.slice(place, place + 3)].map(each => each.toString(16).padStart(2, "0")).join("");
  return Array.from({ length: wide }, (_, place) => hex(4 * place));
}"""  # noqa: E501
GOES_UP = """app.picture.routes.filter(route => route.turns).map(({ tail, head, points }) => {
  const at = points.findIndex(([, y], place) => place && y < points[place - 1][1]);
  return [tail, head, points[at][0], (points[at][1] + points[at - 1][1]) / 2];
})"""


def colors_at(page: Any, x: float, y: float, around: int = 0) -> list[Colour]:
    """The colors of the graph at a place of the picture, and beside it."""
    settle(page)
    found: list[Colour] = page.evaluate(PIXELS, [x, y, around])
    return found


def lit(page: Any, x: float, y: float) -> bool:
    """Whether a line in the color of what is lit goes through this place; its edge is blurred."""

    def blue(color: Colour) -> int:
        return int(color[5:7], 16) - int(color[1:3], 16)

    return max(map(blue, colors_at(page, x, y, 3))) > blue(LIGHT.accent) / 2


def test_arrows_between_columns_light_up_as_a_whole_with_their_boxes(opened: Opens) -> None:
    page = opened(load(GALLERY / "gpt.json.gz"))
    assert app(page, "app.picture.stubs") == []
    tail, head, x, y = app(page, GOES_UP)[0]
    assert not lit(page, x, y)

    for box in (tail, head):
        page.mouse.move(*box_at(page, box))
        assert lit(page, x, y)
    page.mouse.move(5, 5)
    assert not lit(page, x, y)


@pytest.mark.parametrize("make", [lambda: shared_weight(7), two_layers])
def test_leaves_say_the_same_as_in_pictures(opened: Opens, make: Callable[[], Trace]) -> None:
    trace = make()
    scene = graph_scene(trace, GraphOptions(everything=True))
    drawn = {
        (box.title, *(line.text for line in box.lines if not line.text.startswith("layer")))
        for box in scene.boxes
        if box.form is Form.LEAF
    }
    page = opened(trace)
    app(page, "app.tree.groupsIn.forEach((_, group) => app.open.add(group))")
    app(page, "(app.draw(), app.tell('picture'))")
    boxes = app(
        page,
        "app.picture.all.filter(({is}) => is === 'leaf').map(box => [box.title, ...box.lines])",
    )

    assert len(boxes) >= 4
    assert {tuple(box) for box in boxes} == drawn


def test_every_edge_of_the_picture_is_one_line(opened: Opens) -> None:
    for name in ("gpt", "resnet"):
        page = opened(load(GALLERY / f"{name}.json.gz"))

        assert app(page, "app.picture.routes.every(({ begins, ends }) => begins && ends)")
        assert app(page, "app.picture.routes.length === app.picture.edges.length")


def test_a_picture_that_can_be_read_whole_stands_in_one_column(opened: Opens) -> None:
    page = opened(load(GALLERY / "first_graph.json"))

    assert app(page, GOES_UP) == []


@needs_axe
@pytest.mark.parametrize("dark", [False, True])
def test_equal_structure_has_equal_color_and_a_letter(opened: Opens, *, dark: bool) -> None:
    page = opened(load(GALLERY / "resnet.json.gz"), dark=dark)
    page.locator("#coloring").select_option("structure")
    settle(page)

    legend = page.inner_text("#legend")
    assert "Block ×5" in legend
    assert "Block ×3" in legend
    check_accessible(page)


def test_boxes_of_one_structure_are_painted_alike(opened: Opens) -> None:
    page = opened(load(GALLERY / "resnet.json.gz"))
    blocks = app(
        page,
        "app.picture.all.filter(box => box.is === 'group' && box.title.endsWith('Block'))"
        ".map(box => [app.model.groups.get('structure')[box.group], box.x + box.w / 2, box.y + 5])",
    )
    assert len({number for number, *_ in blocks}) == 2

    page.locator("#coloring").select_option("structure")
    for number, x, y in blocks:
        assert colors_at(page, x, y) == [structure_paint(LIGHT, number).fill]
    page.locator("#coloring").select_option("kind")
    kinds = {paint.fill for paint in LIGHT.kinds.values()}
    assert {colors_at(page, x, y)[0] for _, x, y in blocks} < kinds


def test_the_forward_graph_has_structures_of_its_own(opened: Opens) -> None:
    page = opened(load(GALLERY / "gpt.json.gz"), "#v=forward")
    page.locator("#coloring").select_option("structure")
    settle(page)

    assert "Block ×2" in page.inner_text("#legend")


def test_without_equal_structures_the_legend_says_so(opened: Opens) -> None:
    page = opened(load(GALLERY / "q_polynomial.json"))
    page.locator("#coloring").select_option("structure")
    settle(page)

    assert "no structure occurs more than once here" in page.inner_text("#legend")
