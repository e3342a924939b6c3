"""The page's layout is the twin of that of pictures: the same scenes get the same places."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from random import Random
from typing import Any

import pytest

from gradscope.render.viewer.join import joined
from gradscope.scene.layout.columns import LONGEST
from gradscope.scene.layout.measure import Style, width_of
from gradscope.scene.layout.nested import Link, Placed, Rect, nested
from tests.scene.layout.scenes import SCENES, Scene, scene

pytestmark = pytest.mark.browser

NEAR = 0.5  # of a pixel
LETTERS = [chr(code) for code in range(32, 127)] + ["→", "…"]
LAY_OUT = """([boxes, frames, links, tallest, widths, longest]) => {
  const whole = text => [...text].reduce((sum, each) => sum + widths[each], 0);
  const width = text => Math.round(whole(text) * 10) / 10;
  const measure = text => {
    if (width(text) <= longest) return { text, width: width(text) };
    let kept = text.length;
    while (kept && width(`${text.slice(0, kept)}…`) > longest) kept -= 1;
    return { text: `${text.slice(0, kept)}…`, width: width(`${text.slice(0, kept)}…`) };
  };
  const sized = ([id, width, height, parent, title]) => ({ id, width, height, parent, title });
  const led = ([tail, head, label, loose]) => ({ tail, head, label, loose });
  const nest = new Nest(boxes.map(sized), frames.map(sized), links.map(led), tallest, measure);
  const placed = nest.placed();
  const rect = ({ x, y, width, height }) => [x, y, width, height];
  const all = (places) => [...places].map(([id, place]) => [id, ...rect(place)]);
  return [placed.width, placed.height, all(placed.boxes), all(placed.frames),
    placed.courses.map(({ link, points, begins, ends }) => [link, begins, ends, points]),
    placed.stubs.map(({ place, text }) => [text, ...rect(place)])];
}"""


@pytest.fixture
def empty(chromium: Any) -> Iterator[Any]:
    page = chromium.new_page()
    yield page
    page.close()


def labelled(seed: int) -> Scene:
    """The scene, with labels at some of its arrows, and with some that need not be straight."""
    boxes, frames, links = scene(seed)
    chance = Random(-seed)
    more = [
        replace(link, label=chance.choice((0.0, 0.0, 31.4)), loose=chance.random() < 0.3)
        for link in links
    ]
    return boxes, frames, more


def crowded(seed: int) -> Scene:
    """The scene with so many more arrows that some are cut."""
    boxes, frames, links = labelled(seed)
    chance = Random(seed)
    pairs = (sorted(chance.sample(range(len(boxes)), 2)) for _ in range(4 * len(boxes)))
    more = (Link(boxes[tail].id, boxes[head].id) for tail, head in pairs)
    return boxes, frames, [*links, *more]


def in_the_page(page: Any, given: Scene, tallest: float) -> list[Any]:
    boxes, frames, links = given
    size = Style.STUB.size
    widths = {each: width_of(each * 1000, Style.STUB) / 1000 for each in LETTERS}
    assert 0 < widths["→"] < 2 * size
    found: list[Any] = page.evaluate(
        f"(scene) => {{ {joined('nested')}\nreturn ({LAY_OUT})(scene); }}",
        [
            [[box.id, box.width, box.height, box.parent, box.title] for box in boxes],
            [[frame.id, frame.width, frame.height, frame.parent, ""] for frame in frames],
            [[link.tail, link.head, link.label, link.loose] for link in links],
            tallest,
            widths,
            LONGEST,
        ],
    )
    return found


def numbers(placed: Placed) -> list[Any]:
    def rect(place: Rect) -> list[float]:
        return [place.x, place.y, place.width, place.height]

    return [
        placed.width,
        placed.height,
        [[id, *rect(place)] for id, place in placed.boxes.items()],
        [[id, *rect(place)] for id, place in placed.frames.items()],
        [
            [course.link, course.begins, course.ends, [list(point) for point in course.points]]
            for course in placed.courses
        ],
        [[stub.text, *rect(stub.place)] for stub in placed.stubs],
    ]


def apart(one: Any, other: Any, where: str = "") -> list[str]:
    """Where the two differ in more than roundings."""
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        pairs = enumerate(zip(one, other, strict=True))
        return [each for at, pair in pairs for each in apart(*pair, f"{where}/{at}")]
    if isinstance(one, int | float) and isinstance(other, int | float):
        return [] if abs(one - other) <= NEAR else [f"{where}: {one} and {other}"]
    return [] if one == other else [f"{where}: {one} and {other}"]


def test_the_page_and_pictures_put_everything_at_the_same_places(empty: Any) -> None:
    stubs = turns = 0
    for seed in SCENES:
        for tallest, make in product((260.0, 700.0, 2_000.0), (labelled, crowded)):
            given = make(seed)
            expected = nested(*given, tallest)
            stubs += len(expected.stubs)
            turns += expected.turns

            shown = in_the_page(empty, given, tallest)
            assert apart(shown, numbers(expected)) == [], (seed, tallest)
    assert min(stubs, turns) > 20
