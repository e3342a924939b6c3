"""Splits tall pictures into columns; routes between columns become stubs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gradscope.scene.layout.measure import Style, fitting, width_of
from gradscope.scene.layout.pieces import ROW_GAP, Route, Slab
from gradscope.scene.readable import plural

MOST_ROWS = 12
"""A route over more rows than this becomes two stubs."""
FEW_LANES, LANES_EACH = 60, 3
"""Largest number of lanes in a frame, plus a number for each piece in it."""
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
) -> list[LayoutColumn]:
    """The columns, from left to right. `titles`: by route, the titles of its two ends."""
    column_of_row = _split(row_of, ways, tallest)
    longest = _longest(row_of, ways)
    columns = [LayoutColumn() for _ in range(max(column_of_row, default=0) + 1)]
    at = {piece: columns[column_of_row[row_of[piece]]] for piece in pieces}
    for piece in pieces:
        at[piece].pieces.append(piece)
        at[piece].row_of[piece] = row_of[piece]
    cut: list[Route] = []
    for way in ways:
        tail, head = way.tail or way.head, way.head or way.tail
        assert tail is not None
        assert head is not None
        if tail is head or (at[tail] is at[head] and 0 < row_of[head] - row_of[tail] <= longest):
            at[tail].ways.append(_part(way, WHOLE, way.tail, way.head))
        else:
            cut.append(way)
    for part in (FIRST, LAST):
        _add_stubs(part, cut, at, row_of, titles)
    return columns


def _longest(row_of: Mapping[Slab, int], ways: Sequence[Route]) -> int:
    """Largest number of rows that a route may cross, which limits the room for lanes."""
    over: Counter[int] = Counter()
    for way in ways:
        if way.tail is not None and way.head is not None:
            over[row_of[way.head] - row_of[way.tail]] += 1
    lanes = 0
    for rows in range(2, MOST_ROWS + 1):
        lanes += over[rows] * (rows - 1)
        if lanes > FEW_LANES + LANES_EACH * len(row_of):
            return rows - 1
    return MOST_ROWS


def _part(way: Route, part: int, tail: Slab | None, head: Slab | None) -> Route:
    return Route(parts_of(way.id)[part], tail, head, 0.0 if part == LAST else way.label, way.loose)


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
            text = fitting(f"→ {named}" if part == FIRST else f"{named} →", Style.LABEL, LONGEST)
            stub = Slab(width_of(text, Style.LABEL) + 4, Style.LABEL.height)
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
        if found and row > first and filled + height > tallest:
            # At least three quarters of the column are filled.
            spare, begin = 0.25 * tallest, row
            while begin - 1 > first and sum(heights[begin - 1 : row]) <= spare:
                begin -= 1
            first = min(range(row, begin - 1, -1), key=over.__getitem__)
            column += 1
            found[first:] = [column] * (row - first)
            filled = sum(heights[first:row])
        found.append(column)
        filled += height
    return found
