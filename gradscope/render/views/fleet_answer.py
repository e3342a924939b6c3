"""Answers about a fleet of traces, and the list of questions, in a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.text import Text

from gradscope.analysis.ranks.whose import listed
from gradscope.fleet.asking.answer import FleetAnswer
from gradscope.fleet.asking.folder import Fleet
from gradscope.fleet.asking.question import Question
from gradscope.render.terminal.cells import Charset, line, wrapped
from gradscope.render.terminal.styles import SOFT, WARN
from gradscope.render.views.tables import table_lines
from gradscope.scene.readable import byte_count, duration, plural
from gradscope.scene.table_scenes import TableColumn, TableScene

HIDDEN = frozenset({"line_hash", "trace"})
"""Columns that only files and JSON show: people read `line` and `next`."""
LISTS_OF_RANKS = ("ranks", "odd", "others")
NS, BYTES = "_ns", "_bytes"
LAST = ("line", "code")
MOST_NUMBERS = 8
"""Number of values of a list that a cell shows."""
WIDEST = 1 << 16
"""Width of a table whose cells are not cut."""


def answer_lines(
    answer: FleetAnswer, width: int, charset: Charset, most: int, *, several: bool
) -> Iterator[Text]:
    """The rows of an answer, how to read them, what was not recorded, and what to do next.

    `most`: number of rows that are shown; 0: all, with whole cells. `several`: whether the fleet
    has several runs.
    """
    if answer.rows:
        hidden = HIDDEN if several else HIDDEN | {"run"}
        yield from table_lines(rows_scene(answer, most, hidden), width if most else WIDEST, charset)
        for part in wrapped(charset, " ".join(answer.question.words.split()), width - 2):
            yield line("  ", (part, SOFT))
    for note in answer.notes:
        alarming = note.startswith(("not recorded", "left out"))
        for part in wrapped(charset, note, width):
            yield line((part, WARN if alarming else ""))
    if answer.next:
        yield line(charset.text(f"next: {answer.next}", 2_000))


def rows_scene(answer: FleetAnswer, most: int, hidden: frozenset[str]) -> TableScene:
    """The table of an answer; columns without a value are left out."""
    shown = answer.rows[:most] if most else answer.rows
    left = len(answer.rows) - len(shown)
    return table_of(
        answer.question.title, shown, _names(answer.rows, hidden),
        f"{plural(left, 'row')} more: --all" if left else "",
        whole=not most,
    )  # fmt: skip


def table_of(
    title: str, rows: Sequence[Mapping[str, Any]], names: Sequence[str], note: str, *, whole: bool
) -> TableScene:
    """A table of rows with these columns. `whole`: lists are not cut."""
    columns = tuple(
        TableColumn(
            _title(name),
            is_number=all(isinstance(row[name], int | float | None) for row in rows),
            is_path=name == "line",
            is_main=name == "line",
        )
        for name in names
    )
    most = 0 if whole else MOST_NUMBERS
    cells = tuple(tuple(cell(name, row[name], most) for name in names) for row in rows)
    return TableScene(title, columns, cells, note)


def _names(rows: Sequence[Mapping[str, Any]], hidden: frozenset[str]) -> list[str]:
    names = [name for name in rows[0] if name not in hidden]
    if any(name in names for name in LISTS_OF_RANKS):
        names = [name for name in names if name != "rank"]
    known = [name for name in names if any(row[name] is not None for row in rows)]
    return [name for name in known if name not in LAST] + [name for name in LAST if name in known]


def _title(name: str) -> str:
    return name.removesuffix(NS).removesuffix(BYTES).replace("_", " ")


def cell(name: str, value: Any, most: int = MOST_NUMBERS) -> str:
    """A value as people read it: the end of the column's name says what it is.

    `most`: number of values of a list that are shown; 0: all.
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        if name in LISTS_OF_RANKS:
            return listed(value).partition(" ")[2] if value else ""
        cut = 0 < most < len(value)
        shown = " ".join(cell("", each, most) for each in (value[:most] if cut else value))
        return f"{shown} …" if cut else shown
    if isinstance(value, int | float) and name.endswith(NS):
        return f"-{duration(-int(value))}" if value < 0 else duration(int(value))
    if isinstance(value, int) and name.endswith(BYTES):
        return byte_count(value)
    if isinstance(value, float):
        return f"{value:.0%}" if name == "share" else f"{value:.5g}"
    return str(value)


def question_lines(
    fleet: Fleet, known: Sequence[Question], width: int, charset: Charset
) -> Iterator[Text]:
    """The questions, what each answers, and which tables it reads."""
    runs = ", ".join(fleet.runs[:5]) + (", …" if len(fleet.runs) > 5 else "")
    many = len(fleet.traces)
    yield line(charset.fit(f"{plural(len(fleet.runs), 'run')} ({runs}), "
                           f"{plural(many, 'trace')}", width).rstrip())  # fmt: skip
    columns = TableColumn("question", is_main=True), TableColumn("what"), TableColumn("reads")
    rows = tuple((each.name, each.title, ", ".join(each.reads)) for each in known)
    yield from table_lines(TableScene("questions", columns, rows), width, charset)
    yield line(charset.text("next: gradscope ask FLEET QUESTION, or --sql 'SELECT …'"))
