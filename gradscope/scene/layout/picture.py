"""Lays out a picture of a graph so that as much as possible is legible on one screen."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

from gradscope.scene.graph.picture import GraphScene
from gradscope.scene.kinds import Form
from gradscope.scene.layout.labels import MARGIN, LabelRow, box_rows, frame_rows, size_of
from gradscope.scene.layout.measure import Style, width_of
from gradscope.scene.layout.nested import Course, Link, Placed, Sized, nested
from gradscope.scene.layout.pieces import BETWEEN, ROW_GAP
from gradscope.trace.text import visible

SCREEN = (1600.0, 1000.0)
ABOVE = 150.0
"""Approximate height of title, legend and margins."""
EDGE = 20.0
TALLEST = tuple(round(450 * 1.17**power) for power in range(16))
"""Heights of columns that are tried."""
MANY = 400
"""With more boxes than this, the height of columns follows from their area."""
FLAT = 1_000
"""More boxes than this without frames are laid out in arrays; with frames, in one try."""
WITH_FRAMES = 2.6
"""Factor for the height of columns with many boxes, because frames and routes need room."""
READABLE = 0.72
"""The scale at which titles are legible: a larger one is not preferred to a connected picture."""
A_TURN, A_CUT = 0.01, 0.05
"""Increase of the scale that is worth one more route between columns, or one more cut route."""
A_TIED_TURN = 0.05
"""The same for a route between columns of two graphs side by side, whose ties would be long."""


@dataclass(frozen=True, slots=True)
class PictureLayout:
    """The positions of everything, and the texts."""

    placed: Placed
    rows: dict[str, list[LabelRow]]  # of boxes
    frames: dict[str, list[LabelRow]]
    labels: dict[int, str]  # of arrows that have one


def layout(scene: GraphScene) -> PictureLayout:
    """The best of several layouts with different heights of columns."""
    rows = {box.id: box_rows(box) for box in scene.boxes}
    frames = {group.id: frame_rows(group) for group in scene.groups}
    labels = {
        number: visible(arrow.label, 60) for number, arrow in enumerate(scene.arrows) if arrow.label
    }
    links = _links(scene, labels)
    needed = _needed(links)
    boxes = []
    for box in scene.boxes:
        width, height = size_of(rows[box.id])
        width = max(width + 2 * MARGIN[0], needed.get(box.id, 0.0))
        title = f"{box.title} {box.ordinal}".strip()
        boxes.append(Sized(box.id, width, height + 2 * MARGIN[1], box.group, visible(title, 40)))
    titles = [Sized(each.id, *size_of(frames[each.id]), each.parent) for each in scene.groups]
    if len(boxes) > FLAT and not titles:
        from gradscope.scene.layout.arrays.placed import flat  # noqa: PLC0415 - seldom, and 7 ms

        return PictureLayout(flat(boxes, links), rows, frames, labels)
    best: Placed | None = None
    most = (0.0, 0.0)
    for tallest in TALLEST if len(boxes) <= MANY else _suited(boxes):
        placed = nested(boxes, titles, links, tallest)
        value = _legible(placed, A_TIED_TURN if scene.ties else A_TURN)
        if best is None or value > most:
            best, most = placed, value
        if not placed.stubs and not placed.turns and placed.height < tallest:
            break
    assert best is not None
    best.courses = [
        Course(each.link, each.points[::-1], each.ends, each.begins)
        if links[each.link].upward
        else each
        for each in best.courses
    ]
    return PictureLayout(best, rows, frames, labels)


def _suited(boxes: list[Sized]) -> tuple[float, ...]:
    """Heights of columns for a picture with the proportions of a screen."""
    area = sum((box.width + BETWEEN) * (box.height + ROW_GAP) for box in boxes)
    height = sqrt(area * SCREEN[1] / SCREEN[0])
    return (height, 1.6 * height) if len(boxes) <= FLAT else (WITH_FRAMES * height,)


def scale_on_screen(placed: Placed) -> float:
    """The scale of a picture fitted to a screen; at most 1."""
    width, height = placed.width + 2 * EDGE, placed.height + ABOVE
    return min(SCREEN[0] / width, SCREEN[1] / height, 1.0)


def _legible(placed: Placed, a_turn: float) -> tuple[float, float]:
    """How well a picture can be read: if its titles can, by whether it is in one piece."""
    scale = scale_on_screen(placed)
    broken = a_turn * placed.turns + A_CUT * len(placed.stubs)
    return min(scale, READABLE) - broken, scale


def _links(scene: GraphScene, labels: dict[int, str]) -> list[Link]:
    aside = {box.id for box in scene.boxes if box.form in (Form.LEAF, Form.SAVED)}
    return [
        Link(
            *((arrow.head, arrow.tail) if arrow.upward else (arrow.tail, arrow.head)),
            width_of(labels[number], Style.LABEL) if number in labels else 0.0,
            (arrow.tail if arrow.upward else arrow.head) in aside,
            arrow.upward,
        )
        for number, arrow in enumerate(scene.arrows)
    ]


def _needed(links: list[Link]) -> dict[str, float]:
    """The width of each box that is needed for the labels of its arrows side by side."""
    needed: dict[str, float] = {}
    for link in links:
        own = link.label + 12.0 if link.label else 10.0
        needed[link.tail] = needed.get(link.tail, 8.0) + own
    return needed
