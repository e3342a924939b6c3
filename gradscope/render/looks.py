"""How a box is painted, and the texts of the legend: the same in every format."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gradscope.render.theme import (
    ALARMS,
    BIRTHS,
    GLYPHS,
    Colour,
    Paint,
    Theme,
    backward_colour,
    heat_colour,
    lane_colour,
    structure_paint,
)
from gradscope.scene.choices import ColorBy, GraphOf
from gradscope.scene.graph.picture import BackwardEntry, Box, GraphScene, Group
from gradscope.scene.kinds import BoxMark, Form
from gradscope.trace.schema import NONE

MOST_LINES = 3
"""Largest number of backwards that are shown by coloured lines in one arrow."""


@dataclass(frozen=True, slots=True)
class BoxStyle:
    """How one box is painted. Alarms also have a different outline."""

    fill: Colour
    line: Colour
    width: float
    dashed: bool = False  # it was not run
    cut: bool = False  # corners cut off: the first NaN or Inf was produced here


def look_of(box: Box, scene: GraphScene, theme: Theme) -> BoxStyle:
    marks = set(box.marks)
    paint = _paint(box, scene, theme)
    fill, line = paint.fill, paint.line
    width = 1.4 if box.form is Form.FOLDED else 1.1
    if BoxMark.FOCUS in marks:
        line, width = theme.accent, 2.6
    if marks & ALARMS:
        line, width = theme.alarm, 1.8
    if marks & BIRTHS:
        fill, width = theme.alarm_fill, 2.0
    return BoxStyle(fill, line, width, BoxMark.NOT_RUN in marks, bool(marks & BIRTHS))


def _paint(box: Box, scene: GraphScene, theme: Theme) -> Paint:
    if box.form in theme.forms and box.heat is None and box.structure == NONE:
        return theme.forms[box.form]
    if scene.color_by is ColorBy.STRUCTURE and box.form is not Form.LEAF:
        return structure_paint(theme, box.structure)
    if scene.color_by in (ColorBy.KIND, ColorBy.STRUCTURE):
        return theme.kinds[box.kind]
    if box.heat is None:
        return theme.unknown
    return Paint(heat_colour(theme, box.heat), theme.kinds[box.kind].line)


def frame_paint(group: Group, theme: Theme) -> Paint:
    """A frame has the outline of its structure, if colours stand for structures."""
    if group.structure == NONE:
        return theme.group
    return Paint(theme.group.fill, structure_paint(theme, group.structure).line)


def mark_colour(mark: BoxMark, theme: Theme) -> Colour:
    if mark in ALARMS:
        return theme.alarm
    return theme.accent if mark in (BoxMark.ROOT, BoxMark.FOCUS) else theme.soft


# The legend ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LegendEntry:
    """One thing that the legend explains: signs, each in its colour, and words."""

    signs: tuple[tuple[str, Colour], ...]
    words: str
    colour: Colour
    before: str = ""  # words before the signs


def legend(scene: GraphScene, theme: Theme) -> list[list[LegendEntry]]:
    """The entries of each line of the legend: colours, then outlines, glyphs and arrows."""
    colours = list(_colours(scene, theme))
    words = [
        LegendEntry(
            ((GLYPHS[mark], mark_colour(mark, theme)),), mark.value, mark_colour(mark, theme)
        )
        for mark in scene.marks
    ]
    words += [
        LegendEntry(((sign, theme.soft),), text, theme.soft) for sign, text in _outlines(scene)
    ]
    lanes = [
        LegendEntry((("▌", lane_colour(theme, number)),), title, theme.ink)
        for number, title in enumerate(scene.lanes)
    ]
    return [line for line in (colours, words, lanes) if line]


def _colours(scene: GraphScene, theme: Theme) -> Iterator[LegendEntry]:
    if scene.color_by is ColorBy.STRUCTURE:
        for entry in scene.structures:
            line = structure_paint(theme, entry.number).line
            yield LegendEntry((("■", line),), entry.words, theme.ink)
        if not scene.structures:
            yield LegendEntry((), "no structure occurs more than once", theme.ink)
    elif scene.color_by is ColorBy.KIND or scene.scale is None:
        for kind in scene.kinds:
            yield LegendEntry((("■", theme.kinds[kind].line),), kind.value, theme.ink)
    else:
        ramp = tuple(("■", heat_colour(theme, share / 6)) for share in range(7))
        before = f"{scene.scale.title}: {scene.scale.low}"
        yield LegendEntry(ramp, scene.scale.high, theme.ink, before)
        if any(box.heat is None for box in scene.boxes):
            yield LegendEntry((("□", theme.unknown.line),), "no value", theme.ink)
    for form in scene.forms:
        if form in theme.forms:
            yield LegendEntry((("■", theme.forms[form].line),), form.value, theme.ink)


def backward_signs(entry: BackwardEntry, theme: Theme) -> tuple[tuple[str, Colour], ...]:
    """A square in the colour of each backward, and an arrow in that of the first."""
    first, *others = (backward_colour(theme, each) for each in (entry.number, *entry.others))
    return (*(("■", colour) for colour in dict.fromkeys([first, *others])), ("→", first))


FOLDED_FLOWS = {
    GraphOf.FORWARD: "tensors to or from folded boxes",
    GraphOf.BACKWARD: "gradients to or from folded boxes",
    GraphOf.BOTH: "tensors or gradients to or from folded boxes",
    GraphOf.PLAN: "arrays to or from folded boxes",
}


def _outlines(scene: GraphScene) -> Iterator[tuple[str, str]]:
    forms = {arrow.form for arrow in scene.arrows}
    if Form.OPERATION in forms:
        what = "an array" if scene.graph is GraphOf.PLAN else "a tensor"
        yield "→", f"{what} passed between calls"
    if Form.ORDER in forms:
        yield "→", "next call in time; which tensor goes where is not recorded"
    if Form.FUNCTION in forms or not (forms or scene.graph is GraphOf.FORWARD):
        yield "→", "a gradient flows"
    if Form.FOLDED in forms:
        yield "➔", FOLDED_FLOWS[scene.graph]
    if Form.SAVED in forms:
        yield "┈", "saved for backward"
    if scene.graph is GraphOf.BOTH:
        yield "╌", "from a call to the node it created, named after ↔"
    if Form.LEAF in scene.forms:
        yield "□", "square corners: a leaf with .grad"
