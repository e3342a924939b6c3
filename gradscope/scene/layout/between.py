"""Places columns side by side, with lines in the space around them for routes between columns.

Such a route leaves its column below, turns up in the space between two columns, and enters its
other column from above.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from gradscope.scene.layout.columns import FIRST, LAST, WHOLE, Columns, ColumnTurn, whole_of
from gradscope.scene.layout.layered import lay_out
from gradscope.scene.layout.pieces import Care, Point

GUTTER = 34.0
"""Space between two columns."""
BESIDE_TURN = 14.0
"""Space between a column and the first line next to it."""
TRACK = 7.0
"""Space between two lines."""


@dataclass(slots=True)
class SideBySide:
    """The size of all columns together, and the points of the routes between their pieces."""

    width: float
    height: float
    routes: list[tuple[int, int, list[Point]]]  # link, part, points


@dataclass(slots=True)
class _OuterLine:
    """A line of a route below or above the columns."""

    link: int
    left: float
    right: float


@dataclass(slots=True)
class _BentRoute:
    """One route between columns: where it leaves and enters, and where it goes up."""

    turn: ColumnTurn
    start: list[Point]
    end: list[Point]
    up: float = 0.0
    tracks: list[int] = field(default_factory=list)

    def line(self, x: float) -> _OuterLine:
        return _OuterLine(self.turn.link, *sorted((x, self.up)))


def side_by_side(columns: Columns, care: Care) -> SideBySide:
    """Lay out the columns, from left to right, and lead routes from one to another."""
    turns = columns.turns
    many = Counter(turn.gutter for turn in turns)
    at, bottom = 0.0, 0.0
    edges: list[float] = []  # of columns, on the right
    found: list[tuple[int, int, list[Point]]] = []
    last = len(columns.all) - 1
    for number, column in enumerate(columns.all):
        rows = lay_out(column.pieces, column.ways, column.row_of, care)
        for piece in column.pieces:
            piece.x += at
        for id, points in rows.ways.items():
            found.append((*whole_of(id), [(x + at, y) for x, y in points]))
        edges.append(at + rows.width)
        lines = many[number]
        needed = 2 * BESIDE_TURN + (lines - 1) * TRACK if lines else 0.0
        at += rows.width + (max(GUTTER, needed) if number < last else needed and needed - TRACK)
        bottom = max(bottom, rows.height)
    if not turns:
        return SideBySide(at, bottom, found)
    over, under, bent = _bent(turns, found, edges, bottom)
    for column in columns.all:
        for piece in column.pieces:
            piece.y += over
    straight = [each for each in found if each[0] not in bent]
    moved = [
        (link, part, [(x, y + over) for x, y in points])
        for link, part, points in (*straight, *((link, WHOLE, bent[link]) for link in bent))
    ]
    return SideBySide(at, bottom + over + under, moved)


def _bent(
    turns: Sequence[ColumnTurn],
    found: Iterable[tuple[int, int, list[Point]]],
    edges: Sequence[float],
    bottom: float,
) -> tuple[float, float, dict[int, list[Point]]]:
    """The space above and below the columns, and the points of each route between them."""
    of = {(link, part): points for link, part, points in found}
    bends = [_BentRoute(turn, of[turn.link, FIRST], of[turn.link, LAST]) for turn in turns]
    beside: Counter[int] = Counter()
    # The nearest to its gutter turns up first: two routes to the same column do not cross.
    for bend in sorted(bends, key=lambda each: -each.start[-1][0]):
        gutter = bend.turn.gutter
        bend.up = edges[gutter] + BESIDE_TURN + beside[gutter] * TRACK
        beside[gutter] += 1
    low = _tracks(bends, lambda bend: bend.start[-1][0], lambda bend: -bend.start[-1][0])
    high = _tracks(bends, lambda bend: bend.end[0][0], lambda bend: -bend.up)
    points = {}
    for bend in bends:
        link = bend.turn.link
        below, above = bottom + (low[link] + 1) * TRACK, -(high[link] + 1) * TRACK
        points[link] = [
            *bend.start,
            *((bend.start[-1][0], below), (bend.up, below), (bend.up, above)),
            (bend.end[0][0], above),
            *bend.end,
        ]
    return (max(high.values()) + 2) * TRACK, (max(low.values()) + 2) * TRACK, points


def _tracks(
    bends: Sequence[_BentRoute],
    end: Callable[[_BentRoute], float],
    order: Callable[[_BentRoute], float],
) -> dict[int, int]:
    """The track of each route, from the columns outwards: no two lines on a track overlap."""
    tracks: list[list[_OuterLine]] = []
    found: dict[int, int] = {}
    for bend in sorted(bends, key=order):
        line = bend.line(end(bend))
        number = next(
            (
                number
                for number, others in enumerate(tracks)
                if all(
                    each.right + TRACK < line.left or line.right + TRACK < each.left
                    for each in others
                )
            ),
            len(tracks),
        )
        if number == len(tracks):
            tracks.append([])
        tracks[number].append(line)
        found[line.link] = number
    return found
