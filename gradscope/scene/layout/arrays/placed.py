"""Lays out a large picture without frames in arrays, and converts the result to objects."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from gradscope.scene.layout.arrays.graph import Flat
from gradscope.scene.layout.arrays.lay_out import Laid, lay_out
from gradscope.scene.layout.columns import LONGEST
from gradscope.scene.layout.measure import Style, fitting, width_of
from gradscope.scene.layout.nested import Course, Link, Placed, Rect, Sized, Stub, tidy
from gradscope.scene.readable import plural


def flat(boxes: Sequence[Sized], links: Sequence[Link]) -> Placed:
    """Place boxes that are not in frames."""
    number = {box.id: place for place, box in enumerate(boxes)}
    graph = Flat(
        np.array([box.width for box in boxes], np.float64),
        np.array([box.height for box in boxes], np.float64),
        np.array([width_of(box.title, Style.STUB) for box in boxes], np.float64),
        np.array([number[link.tail] for link in links], np.int64),
        np.array([number[link.head] for link in links], np.int64),
        np.array([link.label for link in links], np.float64),
    )
    return _written_out(lay_out(graph), boxes)


def _written_out(laid: Laid, boxes: Sequence[Sized]) -> Placed:
    found = Placed(round(laid.width, 1), round(laid.height, 1))
    corners = list(zip(laid.x.round(1).tolist(), laid.y.round(1).tolist(), strict=True))
    for box, (x, y) in zip(boxes, corners, strict=False):
        found.boxes[box.id] = Rect(x, y, round(box.width, 1), round(box.height, 1))
    stubs = laid.stubs
    facts = zip(
        corners[len(boxes) :], stubs.other.tolist(), stubs.together.tolist(),
        stubs.below.tolist(), laid.stub_widths.round(1).tolist(), strict=True,
    )  # fmt: skip
    for (x, y), other, together, below, width in facts:
        named = plural(together, "box", "boxes") if together > 1 else boxes[other].title
        text = fitting(f"→ {named}" if below else f"{named} →", Style.STUB, LONGEST)
        found.stubs.append(Stub(Rect(x, y, width, Style.STUB.height), text))
    points = [(x, y) for x, y in laid.points.round(1).tolist()]
    bounds = [*laid.begins.tolist(), len(points)]
    courses = zip(laid.link.tolist(), pairwise(bounds), laid.to_stub.tolist(), strict=True)
    for link, (begin, end), to_stub in sorted(courses):
        found.courses.append(Course(link, tidy(points[begin:end]), to_stub >= 0, to_stub <= 0))
    return found
