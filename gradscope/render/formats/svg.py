"""SVG, for browsers and documents: laid out and drawn without other programs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape
from math import copysign, hypot

from gradscope.render.formats import Drawn, Format
from gradscope.render.looks import (
    MOST_LINES,
    BoxStyle,
    LegendEntry,
    backward_signs,
    frame_paint,
    legend,
    look_of,
    mark_colour,
)
from gradscope.render.text import visible
from gradscope.render.theme import GLYPHS, Colour, Theme, backward_colour, lane_colour, on
from gradscope.scene.graph.picture import (
    Arrow,
    BackwardEntry,
    Box,
    BoxLine,
    GraphScene,
    Group,
    Tone,
)
from gradscope.scene.kinds import BoxMark, Form
from gradscope.scene.layout.labels import MARGIN, LabelRow
from gradscope.scene.layout.measure import Style, fitting, width_of
from gradscope.scene.layout.nested import Course, Rect, Stub
from gradscope.scene.layout.picture import EDGE, PictureLayout, layout
from gradscope.scene.layout.pieces import Point
from gradscope.trace.schema import NONE

SANS = "Helvetica,Arial,'Liberation Sans',sans-serif"
MONO = "Menlo,Consolas,'DejaVu Sans Mono',monospace"
NARROWEST = 560.0
"""Least width, for the title and the legend."""
GAP = 16.0
LANE = 4.0
"""Width of the bar that marks the thread or device of a box."""
ROUND = 5.0
"""Radius of corners of arrows."""
HEAD = (3.6, 7.5)
"""Half the width and the length of an arrow's head."""


def write(scene: GraphScene, theme: Theme) -> Drawn:
    return Drawn("\n".join(_Drawing(scene, theme).lines()).encode())


FORMAT = Format("svg", ".svg", "SVG, for browsers and documents", write)


class _Drawing:
    """Draws one picture, from back to front."""

    def __init__(self, scene: GraphScene, theme: Theme) -> None:
        self._scene = scene
        self._theme = theme
        self._layout: PictureLayout = layout(scene)
        self._sets = {  # text style → the name of its rule, and its colour
            Style.TITLE: ("t", theme.ink),
            Style.FRAME: ("f", theme.soft),
            Style.PLAIN: ("p", theme.soft),
            Style.STRONG: ("s", theme.alarm),
            Style.CODE: ("c", theme.code),
            Style.LABEL: ("l", theme.soft),
        }

    def lines(self) -> Iterator[str]:
        placed, theme = self._layout.placed, self._theme
        width = max(placed.width, NARROWEST)
        caption, above = self._caption(width)
        size = f"{_n(width + 2 * EDGE)} {_n(placed.height + above + 2 * EDGE)}"
        across, down = size.split()
        yield '<?xml version="1.0" encoding="UTF-8"?>'
        yield (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{across}" height="{down}" '
            f'viewBox="0 0 {size}" role="img" font-family="{escape(SANS)}">'
        )
        yield f"<title>{_text(self._scene.title)}</title>"
        yield f"<style>{self._style()}</style>"
        yield f'<rect width="{across}" height="{down}" fill="{theme.page}"/>'
        yield f'<g transform="translate({_n(EDGE)} {_n(EDGE)})">'
        yield from caption
        left = (width - placed.width) / 2
        yield f'</g><g transform="translate({_n(EDGE + left)} {_n(EDGE + above)})">'
        for group in self._scene.groups:
            yield self._frame(placed.frames[group.id], group)
        for tie in self._scene.ties:
            yield self._tie(tie)
        for course in placed.courses:
            yield from self._arrow(course)
        for id in placed.frames:
            yield from self._frame_title(placed.frames[id], self._layout.frames[id])
        for stub in placed.stubs:
            yield _stub(stub, theme)
        for box in self._scene.boxes:
            yield from self._box(box, placed.boxes[box.id])
        for course in placed.courses:
            yield from self._label(course)
        yield "</g></svg>\n"

    def _style(self) -> str:
        """The style sheet of the most frequent text styles."""
        theme = self._theme
        rules = [
            f".{name}{{font-size:{style.size}px;fill:{colour}"
            f"{';font-weight:bold' if style.bold else ''}"
            f"{f';font-family:{MONO}' if style.fixed else ''}}}"
            for style, (name, colour) in self._sets.items()
        ]
        halo = f"stroke:{theme.group.fill};stroke-width:4px;stroke-linejoin:round"
        return "".join([*rules, f".g{{paint-order:stroke;{halo}}}", ".a{fill:none}"])

    # Above the picture ---------------------------------------------------------------------------

    def _caption(self, width: float) -> tuple[list[str], float]:
        """The title, notes and legend, and their total height."""
        theme, scene = self._theme, self._scene
        title = fitting(visible(scene.title), Style.HEADING, width)
        y = Style.HEADING.size
        lines = [
            _words(0, y, title, f'font-size="{Style.HEADING.size}" font-weight="bold"', theme.ink)
        ]
        y += 6
        for note in scene.notes:
            for part in _wrapped(visible(note), width):
                y += Style.PLAIN.height
                lines.append(_words(0, y, part, 'class="p"', theme.accent))
        if scene.lines:
            y += Style.CODE.height + 3
            place, *text = (visible(line.text) for line in scene.lines)
            lines.append(_words(0, y, f"{place}:", 'class="p"', theme.accent))
            x = width_of(f"{place}: ", Style.PLAIN) + 4
            code = fitting(" ".join(text), Style.CODE, width - x - 130)
            lines.append(_words(x, y, code, 'class="c"', theme.code))
            x += width_of(code, Style.CODE) + 10
            lines.append(_words(x, y, "for boxes without a line", 'class="p"', theme.soft))
        entries = [*legend(scene, theme), *([self._backward(each)] for each in scene.backwards)]
        for row in entries:
            y += 17
            x = 0.0
            for entry in row:
                needed = _width(entry)
                if x and x + needed > width:
                    x, y = 0.0, y + 15
                lines += _entry(x, y, entry)
                x += needed + GAP
        return lines, y + 22

    def _backward(self, entry: BackwardEntry) -> LegendEntry:
        words = " · ".join(part for part in (entry.title, entry.call) if part)
        return LegendEntry(backward_signs(entry, self._theme), visible(words), self._theme.ink)

    # Frames and boxes ----------------------------------------------------------------------------

    def _frame(self, rect: Rect, group: Group) -> str:
        paint = frame_paint(group, self._theme)
        title = _text(group.title)
        return (
            f'<rect {_at(rect)} rx="6" fill="{paint.fill}" stroke="{paint.line}">'
            f"<title>{title}</title></rect>"
        )

    def _frame_title(self, rect: Rect, rows: list[LabelRow]) -> Iterator[str]:
        y = rect.y + 4
        for row in rows:
            y += row.style.height
            yield from self._row(rect.x + 10, y - 3, row, self._theme.group.fill, "g")

    def _box(self, box: Box, rect: Rect) -> Iterator[str]:
        look = look_of(box, self._scene, self._theme)
        yield "<g>"
        tooltip = "\n".join(visible(line) for line in box.tooltip)
        if tooltip:
            yield f"<title>{escape(tooltip)}</title>"
        yield from _outline(box, rect, look)
        if box.lane != NONE:
            bar = Rect(rect.x + 2, rect.y + 4, LANE, rect.height - 8)
            yield f'<rect {_at(bar)} fill="{lane_colour(self._theme, box.lane)}"/>'
        y = rect.y + MARGIN[1]
        for row in self._layout.rows[box.id]:
            y += row.style.height
            yield from self._row(rect.x + MARGIN[0], y - row.style.height * 0.27, row, look.fill)
        yield "</g>"

    def _row(
        self, x: float, y: float, row: LabelRow, fill: Colour, halo: str = ""
    ) -> Iterator[str]:
        theme, about = self._theme, row.about
        name, usual = self._sets[row.style]
        wanted = usual
        if isinstance(about, BoxMark):
            wanted = mark_colour(about, theme)
            yield _words(x, y, GLYPHS[about], f'class="{name}"', on(fill, wanted, theme))
        if isinstance(about, BoxLine):
            if about.backward != NONE:
                yield _words(x, y, "■", f'class="{name}"', backward_colour(theme, about.backward))
            wanted = theme.accent if about.tone is Tone.SITE else usual
        colour = on(fill, wanted, theme)
        paint = f' style="fill:{colour}"' if colour != usual else ""
        soft = on(fill, theme.soft, theme)
        aside = f' style="fill:{soft}"' if soft != theme.soft else ""
        after = f' <tspan class="p"{aside}>{escape(row.after)}</tspan>' if row.after else ""
        yield (
            f'<text x="{_n(x + row.indent)}" y="{_n(y)}" class="{f"{name} {halo}".strip()}"{paint}>'
            f"{escape(row.text)}{after}</text>"
        )

    # Arrows --------------------------------------------------------------------------------------

    def _arrow(self, course: Course) -> Iterator[str]:
        arrow = self._scene.arrows[course.link]
        kept = arrow.form is Form.SAVED
        width = 1.8 if arrow.form is Form.FOLDED else 1.1
        colours = [backward_colour(self._theme, each) for each in arrow.backwards[:MOST_LINES]]
        colours = colours or [self._theme.soft if kept else self._theme.arrow]
        pointed = course.ends and not kept
        for number, colour in enumerate(colours):
            aside = (number - (len(colours) - 1) / 2) * 2.6
            dots = ' stroke-dasharray="1.5 3"' if kept else ""
            short = HEAD[1] - 1 if pointed else 0.0
            line = _path(course.points, aside, -short if arrow.upward else short)
            yield (f'<path class="a" d="{line}" stroke="{colour}" stroke-width="{width}"{dots}/>')
        if pointed:
            x, y = course.points[-1]
            half, length = HEAD
            base = y + length if arrow.upward else y - length
            corners = f"{_n(x)},{_n(y)} {_n(x - half)},{_n(base)} {_n(x + half)},{_n(base)}"
            yield f'<polygon points="{corners}" fill="{colours[len(colours) // 2]}"/>'

    def _tie(self, tie: Arrow) -> str:
        """A dashed line from side to side, behind all boxes."""
        boxes = self._layout.placed.boxes
        tail, head = boxes[tie.tail], boxes[tie.head]
        onward = tail.x < head.x
        x = tail.x + tail.width if onward else tail.x
        to_x = head.x if onward else head.x + head.width
        y, to_y, middle = tail.y + tail.height / 2, head.y + head.height / 2, _n((x + to_x) / 2)
        line = f"M{_n(x)} {_n(y)}C{middle} {_n(y)} {middle} {_n(to_y)} {_n(to_x)} {_n(to_y)}"
        look = f'stroke="{self._theme.soft}" stroke-width="1.1" stroke-dasharray="7 4"'
        return f'<path class="a" d="{line}" {look}/>'

    def _label(self, course: Course) -> Iterator[str]:
        text = self._layout.labels.get(course.link)
        if text and course.begins:
            x, y = course.points[0]
            y += -4 if self._scene.arrows[course.link].upward else 11
            yield f'<text x="{_n(x + 4)}" y="{_n(y)}" class="l">{escape(text)}</text>'


def _outline(box: Box, rect: Rect, look: BoxStyle) -> Iterator[str]:
    paint = f'fill="{look.fill}" stroke="{look.line}" stroke-width="{look.width}"'
    if look.dashed:
        paint += ' stroke-dasharray="5 3"'
    x, y, right, bottom = rect.x, rect.y, rect.x + rect.width, rect.y + rect.height
    if box.form is Form.FOLDED:  # a second sheet behind the first
        sheet = f"M{_n(x + 4)} {_n(y - 3)}H{_n(right + 3)}V{_n(bottom - 4)}"
        yield f'<path class="a" d="{sheet}" stroke="{look.line}"/>'
    if look.cut:
        corner = 7
        points = (
            (x + corner, y), (right - corner, y), (right, y + corner), (right, bottom - corner),
            (right - corner, bottom), (x + corner, bottom), (x, bottom - corner), (x, y + corner),
        )  # fmt: skip
        yield f'<polygon points="{" ".join(f"{_n(a)},{_n(b)}" for a, b in points)}" {paint}/>'
    elif box.form is Form.SAVED:
        fold = 8
        yield (
            f'<path d="M{_n(x)} {_n(y)}H{_n(right - fold)}L{_n(right)} {_n(y + fold)}V{_n(bottom)}'
            f'H{_n(x)}ZM{_n(right - fold)} {_n(y)}V{_n(y + fold)}H{_n(right)}" {paint}/>'
        )
    else:
        round_ = ' rx="6"' if box.form in (Form.FUNCTION, Form.OPERATION) else ""
        yield f"<rect {_at(rect)}{round_} {paint}/>"


def _path(points: tuple[Point, ...], aside: float, short: float) -> str:
    """A line through the points, curved where two are not vertically aligned."""
    moved = [(x + aside, y) for x, y in points]
    moved[-1] = moved[-1][0], moved[-1][1] - short
    x, y = moved[0]
    parts = [f"M{_n(x)} {_n(y)}"]
    for number, (to_x, to_y) in enumerate(moved[1:], 1):
        if x != to_x and y != to_y:
            middle = _n((y + to_y) / 2)
            parts.append(f"C{_n(x)} {middle} {_n(to_x)} {middle} {_n(to_x)} {_n(to_y)}")
        elif number + 1 < len(moved) and _is_corner((x, y), (to_x, to_y), moved[number + 1]):
            parts.append(_rounded((x, y), (to_x, to_y), moved[number + 1]))
        else:
            parts.append(f"V{_n(to_y)}" if x == to_x else f"H{_n(to_x)}")
        x, y = to_x, to_y
    return "".join(parts)


def _is_corner(before: Point, at: Point, after: Point) -> bool:
    """Whether a line turns here from down to across, or back."""
    return (before[0] == at[0] and at[1] == after[1]) or (before[1] == at[1] and at[0] == after[0])


def _rounded(before: Point, at: Point, after: Point) -> str:
    """A line to a corner, and around it."""
    (x, y), (from_x, from_y), (to_x, to_y) = at, before, after
    near = min(ROUND, *(hypot(a - x, b - y) / 2 for a, b in (before, after)))

    def aside(a: float, b: float) -> str:
        return (
            f"{_n(x + copysign(near, a - x) * (a != x))} {_n(y + copysign(near, b - y) * (b != y))}"
        )

    return f"L{aside(from_x, from_y)}Q{_n(x)} {_n(y)} {aside(to_x, to_y)}"


def _stub(stub: Stub, theme: Theme) -> str:
    rect = stub.place
    style = f'font-size="{Style.STUB.size}"'
    return _words(rect.x + 2, rect.y + Style.STUB.size, stub.text, style, theme.soft)


# Text ----------------------------------------------------------------------------------------


def _entry(x: float, y: float, entry: LegendEntry) -> Iterator[str]:
    if entry.before:
        yield _words(x, y, visible(entry.before), 'class="p"', entry.colour)
        x += width_of(entry.before, Style.PLAIN) + 6
    for sign, colour in entry.signs:
        yield _words(x, y, sign, 'font-size="12"', colour)
        x += 12
    yield _words(x + 3, y, visible(entry.words), 'class="p"', entry.colour)


def _width(entry: LegendEntry) -> float:
    before = width_of(entry.before, Style.PLAIN) + 6 if entry.before else 0.0
    return before + 12 * len(entry.signs) + 3 + width_of(entry.words, Style.PLAIN)


def _wrapped(text: str, width: float) -> Iterable[str]:
    line = ""
    for word in text.split(" "):
        longer = f"{line} {word}".strip()
        if line and width_of(longer, Style.PLAIN) > width:
            yield line
            longer = word
        line = longer
    yield line


def _words(x: float, y: float, text: str, how: str, colour: Colour) -> str:
    return f'<text x="{_n(x)}" y="{_n(y)}" {how} style="fill:{colour}">{escape(text)}</text>'


def _text(text: str) -> str:
    return escape(visible(text))


def _at(rect: Rect) -> str:
    return f'x="{_n(rect.x)}" y="{_n(rect.y)}" width="{_n(rect.width)}" height="{_n(rect.height)}"'


def _n(number: float) -> str:
    """A number with at most one decimal."""
    return f"{number:.1f}".removesuffix(".0")
