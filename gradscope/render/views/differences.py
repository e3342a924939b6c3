"""The output of `diff`: what changed, the first difference of each kind, and a table."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text

from gradscope.render.terminal.cells import Charset, line, wrapped
from gradscope.render.terminal.styles import ACCENT, ALARM, BOLD, GOOD, SOFT
from gradscope.render.views.tables import table_lines
from gradscope.scene.differences import DifferenceScene, DifferencesScene

INDENT = "  "


def differences_lines(scene: DifferencesScene, width: int, charset: Charset) -> Iterator[Text]:
    for text in scene.traces:
        for part in wrapped(charset, text, width):
            yield line((part, SOFT))
    yield line("")
    if scene.changes:
        yield line(("changed", BOLD))
        for text in scene.changes:
            for place, part in enumerate(wrapped(charset, text, width - 2 * len(INDENT))):
                yield line(INDENT + INDENT * (place > 0), part)
        yield line("")
    if scene.first is not None:
        yield from _difference(scene.first, width, charset, ALARM)
        yield line("")
    yield from table_lines(scene.table, width, charset)
    for difference in scene.others:
        yield line("")
        yield from _difference(difference, width, charset, BOLD)
    if scene.notes:
        yield line("")
    for note in scene.notes:
        for part in wrapped(charset, note, width):
            yield line((part, SOFT))
    yield line("")
    yield line((scene.verdict, BOLD if scene.first is not None else GOOD))


def _difference(scene: DifferenceScene, width: int, charset: Charset, style: str) -> Iterator[Text]:
    for part in wrapped(charset, scene.head, width):
        yield line((part, style))
    for side in scene.sides:
        yield line(INDENT, (charset.fit(side.trace, width - len(INDENT)).rstrip(), SOFT))
        for part in wrapped(charset, side.text, width - 2 * len(INDENT)):
            yield line(2 * INDENT, part)
        if side.source:
            text = charset.fit(side.source, width - 2 * len(INDENT)).rstrip()
            yield line(2 * INDENT, (text, ACCENT))
