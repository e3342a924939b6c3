"""The page's layout, on the scenes that the layout of pictures is tried on: by the same rules."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from gradscope.render.viewer.join import SCRIPTS
from gradscope.scene.layout.nested import Course, Placed, Rect, Sized
from tests.scene.layout.rules import apart, arrows_lead_down
from tests.scene.layout.scenes import SCENES, Scene, scene

pytestmark = pytest.mark.browser

LAY_OUT = """([boxes, frames, links]) => {
  const items = new Map([["", { key: "root", items: [], w: 0, h: 0, order: 0 }]]);
  for (const [key, titleWidth, parent] of frames) {
    items.set(key, { key, items: [], titleWidth, w: 0, h: 0, order: -Infinity });
    items.get(parent).items.push(items.get(key));
  }
  boxes.forEach(([key, w, h, parent], place) => {
    items.set(key, { key, w, h, order: -place });
    items.get(parent).items.push(items.get(key));
  });
  const last = (item) => (item.items?.length ? Math.max(...item.items.map(last)) : item.order);
  for (const item of items.values()) item.order = last(item);
  const root = items.get("");
  const routes = layOut(root, links.map(([tail, head]) => ({ tail, head })), [1000, 700]);
  return [root.w, root.h, [...items.values()].map(({ key, x, y, w, h }) => [key, x, y, w, h]),
    routes.map(({ tail, head, points, stub, turn, out, into }) =>
      ({ tail, head, points, stub, turn: turn === true, out: out ?? [], into: into ?? [] }))];
}"""


def laid_out(page: Any, given: Scene) -> Placed:
    """What `layout.js` makes of a scene."""
    boxes, frames, links = given
    script = re.sub(
        r"^export ", "", (SCRIPTS / "core/layout.js").read_text("utf-8"), flags=re.MULTILINE
    )
    width, height, items, routes = page.evaluate(
        f"(scene) => {{ {script}\nreturn ({LAY_OUT})(scene); }}",
        [
            [[box.id, box.width, box.height, box.parent] for box in boxes],
            [[frame.id, frame.width, frame.parent] for frame in frames],
            [[link.tail, link.head] for link in links],
        ],
    )
    places = {key: Rect(*rect) for key, *rect in items if key != "root"}
    number = {(link.tail, link.head): place for place, link in enumerate(links)}
    return Placed(
        width,
        height,
        {box.id: places[box.id] for box in boxes},
        {frame.id: places[frame.id] for frame in frames},
        [course for each in routes for course in courses(each, number)],
    )


def courses(route: dict[str, Any], number: dict[tuple[str, str], int]) -> Iterator[Course]:
    """An arrow in one piece; both ends of one that is cut; nothing of one that turns around."""
    link = number[route["tail"], route["head"]]
    lines = [route["out"], route["into"]] if route["stub"] else [route["points"]]
    for points in lines if not route["turn"] else ():
        yield Course(link, tuple((x, y) for x, y in points), begins=True, ends=True)


@pytest.fixture
def empty(chromium: Any) -> Iterator[Any]:
    page = chromium.new_page()
    yield page
    page.close()


def test_the_page_keeps_the_rules_that_pictures_keep(empty: Any) -> None:
    for seed in SCENES:
        given = scene(seed)
        boxes, frames, links = given
        sized: list[Sized] = [*boxes, *frames]
        found = laid_out(empty, given)

        assert apart(found, sized) == [], seed
        assert arrows_lead_down(found, sized, links) == [], seed
        led = {course.link for course in found.courses}
        assert len(led) > 0.6 * len(links), seed
