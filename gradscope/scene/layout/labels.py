"""The lines of text in a box or frame, which are measured and then drawn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gradscope.scene.graph.picture import Box, BoxLine, Group, Tone
from gradscope.scene.kinds import BoxMark
from gradscope.scene.layout.measure import Style, ending, fitting, width_of
from gradscope.trace.text import visible

WIDEST = 330.0
"""Longer text ends in an ellipsis."""
GLYPH = 14.0
"""Width of the sign before a mark, or of the colour before the number of a backward."""
UNNAMED = "(unnamed)"
MARGIN = (9.0, 5.0)
"""Left and right of the text in a box; above and below it."""


@dataclass(frozen=True, slots=True)
class LabelRow:
    """One line of text, and its kind: a title, a mark, or a line of the box."""

    text: str
    style: Style
    about: BoxMark | BoxLine | None = None
    after: str = ""  # less important text after it: the ordinal of a node

    @property
    def indent(self) -> float:
        is_backward = isinstance(self.about, BoxLine) and self.about.backward >= 0
        return GLYPH if isinstance(self.about, BoxMark) or is_backward else 0.0

    @property
    def width(self) -> float:
        after = width_of(f" {self.after}", Style.PLAIN) + 2 if self.after else 0.0
        return self.indent + width_of(self.text, self.style) + after


def box_rows(box: Box) -> list[LabelRow]:
    """The title of a box, its marks, and its lines."""
    title = _shown(box.title, Style.TITLE) or UNNAMED
    rows = [LabelRow(title, Style.TITLE, after=_shown(box.ordinal, Style.PLAIN))]
    rows += [LabelRow(mark.value, Style.PLAIN, mark) for mark in box.marks]
    return [*rows, *_lines(box.lines)]


def frame_rows(group: Group) -> list[LabelRow]:
    """The title of a frame, and the source line shared by its boxes."""
    title = ending(visible(group.title, 200), Style.FRAME, WIDEST) or UNNAMED
    return [LabelRow(title, Style.FRAME), *_lines(group.lines)]


def size_of(rows: Sequence[LabelRow]) -> tuple[float, float]:
    return max(row.width for row in rows), sum(row.style.height for row in rows)


def _lines(lines: Sequence[BoxLine]) -> Iterator[LabelRow]:
    styles = {Tone.CODE: Style.CODE, Tone.ALARM: Style.STRONG}
    for line in lines:
        style = styles.get(line.tone, Style.PLAIN)
        if line.text:
            yield LabelRow(_shown(line.text, style), style, line)


def _shown(text: str, style: Style) -> str:
    return fitting(visible(text, 200), style, WIDEST)
