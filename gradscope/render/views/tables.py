"""Tables and facts in a terminal, limited to its width."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.text import Text

from gradscope.render.terminal.cells import Charset, line, wrapped
from gradscope.render.terminal.styles import ALARM, BOLD, GOOD, SOFT
from gradscope.scene.readable import plural
from gradscope.scene.table_scenes import FactsScene, TableColumn, TableScene
from gradscope.trace.schema import NONE

if TYPE_CHECKING:
    from gradscope.trace.spec import Violation  # loaded with every rule, but only `check` needs it

GAP = "  "
INDENT = "    "
NARROWEST_COLUMN = 8


def table_lines(table: TableScene, width: int, charset: Charset) -> Iterator[Text]:
    """A table: title, header and rows."""
    widths = _widths(table, width, charset)
    yield line((charset.fit(table.title, width).rstrip(), BOLD))
    head = [
        charset.fit(column.title, cells, right=column.is_number)
        for column, cells in zip(table.columns, widths, strict=True)
    ]
    yield line((f"{GAP}{GAP.join(head)}".rstrip(), SOFT))
    for row in table.rows:
        cells = [
            _fitted(cell, room, column, charset)
            for cell, column, room in zip(row, table.columns, widths, strict=True)
        ]
        yield line(f"{GAP}{GAP.join(cells)}".rstrip())
    if table.note:
        yield line((charset.fit(f"{GAP}{table.note}", width).rstrip(), SOFT))


def _fitted(cell: str, room: int, column: TableColumn, charset: Charset) -> str:
    if column.is_path:
        cell = charset.fit_end(cell, room)
    return charset.fit(cell, room, right=column.is_number)


def _widths(table: TableScene, width: int, charset: Charset) -> list[int]:
    """The widths of columns: as wide as their cells; if too wide, the widest shrink."""
    columns = zip(*table.rows, strict=True) if table.rows else [()] * len(table.columns)
    widths = [
        max(cell_len(charset.text(text)) for text in (head.title, *cells))
        for head, cells in zip(table.columns, columns, strict=True)
    ]
    room = width - len(GAP) * len(widths)
    others = [place for place, column in enumerate(table.columns) if not column.is_main]
    for places in (others, range(len(widths))):
        while sum(widths) > room:
            widest = max(places, key=lambda place: widths[place])
            if widths[widest] <= NARROWEST_COLUMN:
                break
            widths[widest] -= 1
    return widths


def facts_lines(scene: FactsScene, width: int, charset: Charset) -> Iterator[Text]:
    """Names and facts; a long fact is wrapped."""
    names = min(max(cell_len(charset.text(name)) for name, _ in scene.facts), 18)
    for name, fact in scene.facts:
        head = charset.fit(name, names)
        for part in wrapped(charset, fact, max(width - names - len(GAP), 1)):
            yield line((head, SOFT), GAP, part)
            head = " " * names


def violation_lines(found: Sequence[Violation], width: int, charset: Charset) -> Iterator[Text]:
    """The output of `check`: each rule of the format that a trace breaks, and where."""
    for violation in found:
        place = f"{violation.table} {violation.id}" if violation.id != NONE else violation.table
        event = f", event {violation.seq}" if violation.seq != NONE else ""
        yield line((violation.rule, ALARM), f" ({place}{event})")
        for part in wrapped(charset, violation.message, width - len(INDENT)):
            yield line(INDENT, part)
    if found:
        yield line((f"{plural(len(found), 'violation')} of the rules of the trace format", ALARM))
    else:
        yield line(("the trace follows all rules of the trace format", GOOD))
