"""Splits tall pictures into columns. Routes between columns turn up beside them or are cut."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gradscope.scene.layout.measure import Style, fitting, width_of
from gradscope.scene.layout.pieces import ROW_GAP, Route, Slab
from gradscope.scene.readable import plural

MOST_ROWS = 12
"""In pictures laid out in arrays, a route over more rows than this becomes two stubs."""
FEW_LANES, LANES_EACH = 60, 3
"""Largest number of lanes in a frame, plus a number for each piece in it."""
LEAST_FILLED = 0.25
"""A column with less is not closed; the last one is then part of the one before."""
MOST_TURNS, TURNS_EACH = 24, 4
"""More routes than this between the columns of a frame, or for each column, become stubs."""
LONGEST = 150.0
"""Largest width of a stub's text."""
MOST_STUBS = 3
"""Largest number of stubs of a box that are shown separately."""
WHOLE, FIRST, LAST = range(3)
"""Parts of a route: an uncut one; the half of a cut one at its tail; and that at its head."""


@dataclass(slots=True)
class LayoutColumn:
    """Some rows of a frame, with the routes between them and the ends of cut routes."""

    pieces: list[Slab] = field(default_factory=list)
    row_of: dict[Slab, int] = field(default_factory=dict)
    ways: list[Route] = field(default_factory=list)
    stubs: dict[Slab, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ColumnTurn:
    """A route from a column to another, or upwards in one, through the space beside a column."""

    link: int
    gutter: int  # the number of the column to the left of that space


@dataclass(frozen=True, slots=True)
class Columns:
    """All columns of a frame, from left to right, and the routes from one to another."""

    all: list[LayoutColumn]
    turns: list[ColumnTurn]


def parts_of(way: int) -> range:
    """The numbers of the parts of a route: the layout treats each of them as a route."""
    return range(3 * way, 3 * way + 3)


def whole_of(number: int) -> tuple[int, int]:
    """The route of this part, and which part it is."""
    return divmod(number, 3)


def columns_of(
    pieces: Sequence[Slab],
    ways: Sequence[Route],
    row_of: Mapping[Slab, int],
    tallest: float,
    titles: Mapping[int, tuple[str, str]],
) -> Columns:
    """The pieces and routes in columns. `titles`: by route, the titles of its two ends."""
    column_of_row = _split(row_of, ways, tallest)
    longest = _longest(row_of, ways)
    columns = [LayoutColumn() for _ in range(max(column_of_row, default=0) + 1)]
    at = {piece: columns[column_of_row[row_of[piece]]] for piece in pieces}
    for piece in pieces:
        at[piece].pieces.append(piece)
        at[piece].row_of[piece] = row_of[piece]
    apart: list[tuple[Route, bool]] = []  # whether it can turn: a long one downwards cannot
    for way in ways:
        tail, head = way.tail or way.head, way.head or way.tail
        assert tail is not None
        assert head is not None
        down = row_of[head] - row_of[tail] if at[tail] is at[head] else 0
        if tail is head or 0 < down <= longest:
            at[tail].ways.append(_part(way, WHOLE, way.tail, way.head))
        else:
            apart.append((way, not down > 0))
    few = sum(turns for _, turns in apart) <= max(MOST_TURNS, TURNS_EACH * len(columns))
    cut = [way for way, turns in apart if not (few and turns)]
    turning = [way for way, turns in apart if few and turns]
    turns = []
    for way in turning:
        assert way.tail is not None
        assert way.head is not None
        at[way.tail].ways.append(_part(way, FIRST, way.tail, None))
        at[way.head].ways.append(_part(way, LAST, None, way.head))
        begins, ends = (column_of_row[row_of[end]] for end in (way.tail, way.head))
        turns.append(ColumnTurn(way.id, ends - 1 if ends > begins else begins))
    for part in (FIRST, LAST):
        _add_stubs(part, cut, at, row_of, titles)
    return Columns(columns, turns)


def _longest(row_of: Mapping[Slab, int], ways: Sequence[Route]) -> int:
    """Largest number of rows that a route may cross, which limits the room for lanes."""
    over: Counter[int] = Counter()
    for way in ways:
        if way.tail is not None and way.head is not None:
            over[row_of[way.head] - row_of[way.tail]] += 1
    lanes, most = 0, max(over, default=1)
    for rows in range(2, most + 1):
        lanes += over[rows] * (rows - 1)
        if lanes > FEW_LANES + LANES_EACH * len(row_of):
            return rows - 1
    return most


def _part(way: Route, part: int, tail: Slab | None, head: Slab | None) -> Route:
    label = 0.0 if part == LAST else way.label
    return Route(parts_of(way.id)[part], tail, head, label, way.loose, way.upward)


def _add_stubs(
    part: int,
    cut: Sequence[Route],
    at: Mapping[Slab, LayoutColumn],
    row_of: Mapping[Slab, int],
    titles: Mapping[int, tuple[str, str]],
) -> None:
    """Add stubs below the tails of cut routes, or above their heads."""
    of: dict[Slab, list[Route]] = defaultdict(list)
    for way in cut:
        end = way.tail if part == FIRST else way.head
        assert end is not None
        of[end].append(way)
    for end, ways in of.items():
        together = len(ways) > MOST_STUBS and not end.fixed
        for way in ways[:1] if together else ways:
            other = titles[way.id][1 if part == FIRST else 0]
            named = plural(len(ways), "box", "boxes") if together else other
            leaves = (part == FIRST) is not way.upward
            text = fitting(f"→ {named}" if leaves else f"{named} →", Style.STUB, LONGEST)
            stub = Slab(width_of(text, Style.STUB) + 4, Style.STUB.height)
            column = at[end]
            column.pieces.append(stub)
            column.stubs[stub] = text
            column.row_of[stub] = row_of[end] + (1 if part == FIRST else -1)
            ends = (end, stub) if part == FIRST else (stub, end)
            column.ways.append(_part(way, part, *ends))


def _split(row_of: Mapping[Slab, int], ways: Sequence[Route], tallest: float) -> list[int]:
    """The column of each row. Each column is filled, and ends where the fewest routes continue."""
    heights = [0.0] * (max(row_of.values(), default=-1) + 1)
    for piece, row in row_of.items():
        heights[row] = max(heights[row], piece.height + ROW_GAP)
    over = [0] * (len(heights) + 1)  # by row: the number of routes that reach it from above
    for way in ways:
        if way.tail is not None and way.head is not None:
            low, high = sorted((row_of[way.tail], row_of[way.head]))
            for row in range(low + 1, high + 1):
                over[row] += 1
    found: list[int] = []
    column, first, filled = 0, 0, 0.0
    for row, height in enumerate(heights):
        if filled > LEAST_FILLED * tallest and row > first and filled + height > tallest:
            # At least three quarters of the column are filled, and more than what is moved on.
            spare, begin = 0.25 * tallest, row
            while begin - 1 > first and sum(heights[begin - 1 : row]) <= min(
                spare, sum(heights[first : begin - 1])
            ):
                begin -= 1
            first = min(range(row, begin - 1, -1), key=over.__getitem__)
            column += 1
            found[first:] = [column] * (row - first)
            filled = sum(heights[first:row])
        found.append(column)
        filled += height
    if filled <= LEAST_FILLED * tallest:  # a few rows do not make a column
        found[first:] = [max(column - 1, 0)] * (len(found) - first)
    return found
