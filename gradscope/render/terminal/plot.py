"""Time drawn in the columns of a line of text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil

from gradscope.render.terminal.cells import Charset
from gradscope.render.terminal.styles import kind_style
from gradscope.scene.kinds import NodeKind
from gradscope.scene.readable import duration
from gradscope.scene.timeline.lanes import Bar, LevelAt

Cells = list[tuple[str, NodeKind | None]]
"""A character for each column, or several equal ones, and the kind for its colour."""


def ruler(took: int, width: int, charset: Charset) -> str:
    """As in "0 ├──────┤ 45.5 µs", as wide as the plot."""
    low, high = "0 ", charset.text(f" {duration(took)}")
    rule = max(width - len(low) - len(high) - 2, 1)
    return f"{low}{charset.left}{charset.rule * rule}{charset.right}{high}"


def painted(cells: Cells) -> Iterator[tuple[str, str]]:
    """The columns as texts with their styles, joined where the colour stays the same."""
    start = 0
    for place in range(1, len(cells) + 1):
        if place == len(cells) or cells[place][1] != cells[start][1]:
            text = "".join(character for character, _ in cells[start:place])
            yield text, kind_style(cells[start][1])
            start = place


class TimeAxis:
    """Maps moments to columns."""

    def __init__(self, begin: int, end: int, width: int) -> None:
        self.begin = begin
        self.width = width
        self.step = max(end - begin, 1) / width

    def column(self, t: int) -> int:
        """The column of a moment; moments outside fall on the edges."""
        return min(max(int((t - self.begin) / self.step), 0), self.width - 1)

    def edges(self, begin: int, end: int) -> tuple[float, float]:
        """A period of time in columns, as fractions."""
        low = (begin - self.begin) / self.step
        return max(low, 0.0), min((end - self.begin) / self.step, float(self.width))


def busy_cells(
    spans: Sequence[Bar], axis: TimeAxis, charset: Charset, asleep: Sequence[Bar] = ()
) -> Cells:
    """Columns where something ran, in the colour of the longest run, or slept."""
    share = [0.0] * axis.width
    longest = [0.0] * axis.width
    kinds: list[NodeKind | None] = [None] * axis.width
    for span in spans:
        low, high = axis.edges(span.begin, span.end)
        first = axis.column(span.begin)
        for column in range(first, max(ceil(high), first + 1)):
            part = min(high, column + 1) - max(low, column)
            if part > longest[column] or kinds[column] is None:
                longest[column], kinds[column] = part, span.kind
            share[column] += max(part, 0.0)
    still = [charset.idle] * axis.width
    for span in asleep:
        first = axis.column(span.begin)
        last = axis.column(max(span.end - 1, span.begin))
        still[first : last + 1] = [charset.wait] * (last + 1 - first)
    return [
        (rest, None) if kind is None else (_block(part, charset), kind)
        for part, kind, rest in zip(share, kinds, still, strict=True)
    ]


def _block(share: float, charset: Charset) -> str:
    return charset.run if share >= 0.5 else charset.some


def moment_cells(spans: Sequence[Bar], axis: TimeAxis, glyph: str, charset: Charset) -> Cells:
    cells: Cells = [(charset.idle, None)] * axis.width
    for span in spans:
        cells[axis.column(span.begin)] = (glyph, span.kind)
    return cells


def level_cells(levels: Sequence[LevelAt], axis: TimeAxis, charset: Charset) -> Cells:
    """The largest value in each column."""
    most = [0] * axis.width
    before = axis.column(levels[0].t) if levels else 0
    value = 0
    for level in levels:
        now = axis.column(level.t)
        for column in range(before, now + 1):
            most[column] = max(most[column], value)
        most[now] = max(most[now], level.value)
        before, value = now, level.value
    for column in range(before, axis.width):
        most[column] = max(most[column], value)
    top = max(most)
    return [(_level(value, top, charset), None) for value in most]


def _level(value: int, top: int, charset: Charset) -> str:
    if value <= 0:
        return charset.idle
    if charset.plain:
        return charset.levels[min(value, len(charset.levels)) - 1]
    return charset.levels[(value * len(charset.levels) - 1) // top]


def wait_and_run_cells(
    ready: int | None, begin: int, end: int, kind: NodeKind, axis: TimeAxis, charset: Charset
) -> Cells:
    """One node: waiting in the queue, then running for at least one column; in few pieces."""
    first, last = axis.column(begin), axis.column(max(end - 1, begin))
    since = first if ready is None else min(axis.column(ready), first)
    return [
        (charset.idle * since, None),
        (charset.wait * (first - since), None),
        (charset.run * (last + 1 - first), kind),
        (charset.idle * (axis.width - last - 1), None),
    ]
