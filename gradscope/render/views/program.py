"""Spans and marks of the program in a terminal, one line each, on one time axis."""

from __future__ import annotations

from collections.abc import Iterator

from rich.cells import cell_len
from rich.text import Text

from gradscope.render.terminal.cells import Charset, line, wrapped
from gradscope.render.terminal.plot import Cells, TimeAxis, busy_cells, moment_cells, painted, ruler
from gradscope.render.terminal.styles import ACCENT, BOLD, SOFT
from gradscope.scene.kinds import NodeKind
from gradscope.scene.timeline.lanes import Bar
from gradscope.scene.timeline.program import ProgramRow, ProgramTimeline, SaidBy

GAP = "  "
DEEPEST = 8
TOOK = 11
"""The width of "did not end"."""


def program_lines(program: ProgramTimeline, width: int, charset: Charset) -> Iterator[Text]:
    """A title, the axis, a bar for each span and a glyph for each mark."""
    titles = [_title(row, charset) for row in program.rows]
    wide = max(len("spans"), *(cell_len(charset.text(title)) for title in titles))
    title = min(wide, max(width // 2 - 4, 20))
    axis = TimeAxis(program.begin, program.end, max(width - title - TOOK - 2 * len(GAP), 8))
    yield line((charset.fit(program.title, width).rstrip(), BOLD))
    took = program.end - program.begin
    yield line(" " * title + GAP, (ruler(took, axis.width, charset), SOFT))
    for row, text in zip(program.rows, titles, strict=True):
        shown = line(
            (charset.fit(text, title), ACCENT if row.kind is SaidBy.MARK else ""),
            GAP,
            *painted(_cells(row, axis, charset)),
            GAP,
            (charset.fit(row.took, TOOK, right=True), SOFT),
        )
        shown.rstrip()
        yield shown
    for note in program.notes:
        yield from (line((part, ACCENT)) for part in wrapped(charset, note, width))


def _title(row: ProgramRow, charset: Charset) -> str:
    glyph = f"{charset.hook} " if row.kind is SaidBy.MARK else ""
    thread = f" ({row.thread})" if row.thread else ""
    return f"{GAP * min(row.depth, DEEPEST)}{glyph}{row.title}{thread}"


def _cells(row: ProgramRow, axis: TimeAxis, charset: Charset) -> Cells:
    kind = NodeKind.POINTWISE if row.kind is SaidBy.BACKWARD else NodeKind.OTHER
    span = Bar(max(row.begin, axis.begin), row.end, kind)
    if row.kind is SaidBy.MARK:
        return moment_cells([span], axis, charset.hook, charset)
    return busy_cells([span], axis, charset)
