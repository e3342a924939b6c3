"""Labels in Graphviz's HTML-like language: a title and small lines, every text escaped."""

from __future__ import annotations

import math
from dataclasses import replace
from html import escape

from rich.cells import cell_len

from gradscope.render.looks import LegendEntry, backward_signs, legend, mark_colour
from gradscope.render.text import visible
from gradscope.render.theme import ALARMS, GLYPHS, Colour, Theme, backward_colour, lane_colour, on
from gradscope.scene.graph.picture import BackwardEntry, Box, BoxLine, GraphScene, Group, Tone
from gradscope.scene.kinds import BoxMark
from gradscope.trace.schema import NONE

TABLE = '<TABLE BORDER="0" CELLBORDER="0" CELLSPACING="0" CELLPADDING="1">'
MONO = "Menlo,Consolas,DejaVu Sans Mono,monospace"
LETTER = 0.6021 * 9
"""Largest width of a letter of these fonts at 9 points; Graphviz measures them for a screen,
where they are up to a thirtieth narrower than in a browser."""
TITLE_LENGTH = 60
UNNAMED = "(unnamed)"  # Graphviz rejects empty elements


def escaped(text: str, limit: int = 200) -> str:
    r"""Text that an HTML-like label shows as it is; Graphviz would read `\N` as a node's name."""
    return escape(visible(text, limit)).replace("\\", "\\\\")


def box_label(box: Box, theme: Theme, fill: Colour) -> str:
    """The label of a box: its title, marks and lines."""
    title = f"<B>{escaped(box.title, TITLE_LENGTH) or UNNAMED}</B>"
    if box.ordinal:
        title += f" {_font(escaped(box.ordinal), on(fill, theme.soft, theme), 9)}"
    rows = [_row(title)]
    theme = replace(
        theme,
        soft=on(fill, theme.soft, theme),
        accent=on(fill, theme.accent, theme),
        alarm=on(fill, theme.alarm, theme),
    )
    rows += [_row(_mark(mark, theme)) for mark in box.marks]
    rows += [_row(_line(line, theme), _width(line)) for line in box.lines if line.text]
    if box.lane != NONE:
        rows[0] = _row(f"{_font('▌', lane_colour(theme, box.lane), 12)}{title}")
    return f"<{TABLE}{''.join(rows)}</TABLE>>"


def group_label(group: Group, theme: Theme) -> str:
    """The label of a frame: its title, and the source line shared by its boxes."""
    rows = [_row(escaped(group.title) or UNNAMED)]
    rows += [_row(_line(line, theme), _width(line)) for line in group.lines if line.text]
    return f"<{TABLE}{''.join(rows)}</TABLE>>"


def _mark(mark: BoxMark, theme: Theme) -> str:
    text = f"{GLYPHS[mark]} {escape(mark.value)}"
    colour = mark_colour(mark, theme)
    return _font(f"<B>{text}</B>", colour, 10) if mark in ALARMS else _font(text, colour, 9)


def _line(line: BoxLine, theme: Theme) -> str:
    text = escaped(line.text)
    match line.tone:
        case Tone.CODE:
            return f'<FONT FACE="{MONO}" COLOR="{theme.code}" POINT-SIZE="9">{text}</FONT>'
        case Tone.SITE:
            return _font(text, theme.accent, 9)
        case Tone.ALARM:
            return _font(f"<B>{text}</B>", theme.alarm, 9)
        case Tone.PLAIN if line.backward != NONE:
            return _of_backward(text, line.backward, theme)
        case Tone.PLAIN:
            return _font(text, theme.soft, 9)


def _width(line: BoxLine) -> int:
    """The least width of a line, if it is known."""
    return math.ceil(cell_len(visible(line.text)) * LETTER) if line.tone is Tone.CODE else 0


def _of_backward(text: str, number: int, theme: Theme) -> str:
    return f"{_font('■', backward_colour(theme, number), 9)} {_font(text, theme.soft, 9)}"


def _font(text: str, colour: Colour, size: int) -> str:
    return f'<FONT COLOR="{colour}" POINT-SIZE="{size}">{text}</FONT>'


def _row(text: str, width: int = 0) -> str:
    wide = f' WIDTH="{width}"' if width else ""
    return f'<TR><TD ALIGN="LEFT"{wide}>{text}</TD></TR>'


# The caption ---------------------------------------------------------------------------------


def caption(scene: GraphScene, theme: Theme) -> str:
    """The caption above the picture: title, notes and legend."""
    rows = [_row(f'<FONT POINT-SIZE="15"><B>{escaped(scene.title)}</B></FONT>')]
    rows += [_row(_font(escaped(note), theme.accent, 10)) for note in scene.notes]
    if scene.lines:
        source = " ".join(_line(line, theme) for line in scene.lines)
        rows.append(_row(f"{source} {_font('for boxes without a line', theme.soft, 9)}"))
    rows += [_row(_GAP.join(_entry(each, theme) for each in line)) for line in legend(scene, theme)]
    rows += [_row(_backward(entry, theme)) for entry in scene.backwards]
    rows.append('<TR><TD HEIGHT="8"></TD></TR>')
    return f"<{TABLE}{''.join(rows)}</TABLE>>"


_GAP = "&#160;&#160;&#160; "


def _backward(entry: BackwardEntry, theme: Theme) -> str:
    """The legend entry of a backward: colour, title, and the line that called it."""
    signs = backward_signs(entry, theme)
    swatch = "".join(_font(sign, colour, 11) for sign, colour in signs)
    call = f'<FONT FACE="{MONO}" COLOR="{theme.code}" POINT-SIZE="9">{escaped(entry.call)}</FONT>'
    title = f"{swatch} {_font(escaped(entry.title), theme.ink, 9)}"
    return f"{title} {call}" if entry.call else title


def _entry(entry: LegendEntry, theme: Theme) -> str:
    before = f"{_font(escaped(entry.before), theme.ink, 9)} " if entry.before else ""
    signs = "".join(_font(escape(sign), colour, 14) for sign, colour in entry.signs)
    return f"{before}{signs} {_font(escaped(entry.words), entry.colour, 9)}"
