"""Pieces in rows, each below those that lead to it, with routes that touch no piece.

Rows follow from the longest path. Routes over several rows use free lanes in the rows between. The
order has few crossings (by the means of neighbours), and positions are as near to the neighbours as
the order allows. Routes from outside enter above the first row, and routes to outside end below the
last.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from gradscope.scene.layout.pieces import (
    BETWEEN,
    LANE,
    ROW_GAP,
    UNDER_LABEL,
    USUAL,
    Care,
    Point,
    Route,
    Slab,
)  # fmt: skip
from gradscope.scene.layout.straight import NextInLine, gap, straighten


@dataclass(slots=True)
class LayeredPlaces:
    """The positions of all pieces and routes, with a corner at (0, 0)."""

    width: float
    height: float
    ways: dict[int, list[Point]]


@dataclass(frozen=True, slots=True)
class _Step:
    """A part of a route, from one row to the next."""

    upper: Slab
    lower: Slab
    way: Route


def ranks(pieces: Sequence[Slab], ways: Iterable[Route], most_width: float) -> dict[Slab, int]:
    """The row of each piece: below all that lead to it, where there is room; sources lower down.

    Routes of a cycle that lead upwards do not count.
    """
    onward: dict[Slab, list[Slab]] = defaultdict(list)
    for way in ways:
        if way.tail is not None and way.head is not None and way.tail is not way.head:
            onward[way.tail].append(way.head)
    order = _upper_first(pieces, onward)
    place = {piece: number for number, piece in enumerate(order)}
    above: dict[Slab, list[Slab]] = defaultdict(list)
    for piece in order:
        for other in onward[piece]:
            if place[other] > place[piece]:
                above[other].append(piece)
    row: dict[Slab, int] = {}
    filled: dict[int, float] = defaultdict(float)
    for piece in order:
        at = max((row[other] + 1 for other in above[piece]), default=0)
        while filled[at] and filled[at] + piece.width > most_width:
            at += 1
        row[piece] = at
        filled[at] += piece.width + BETWEEN
    for piece in reversed(order):
        below = [row[other] for other in onward[piece] if place[other] > place[piece]]
        if not above[piece] and below:
            at = min(below) - 1
            if filled[at] + piece.width <= most_width or at == row[piece]:
                filled[row[piece]] -= piece.width + BETWEEN
                filled[at] += piece.width + BETWEEN
                row[piece] = at
    used = {at: number for number, at in enumerate(sorted(set(row.values())))}
    return {piece: used[at] for piece, at in row.items()}


def _upper_first(pieces: Sequence[Slab], onward: Mapping[Slab, list[Slab]]) -> list[Slab]:
    """All pieces, each before those it leads to, except in cycles."""
    done: set[Slab] = set()
    order: list[Slab] = []
    below = {other for others in onward.values() for other in others}
    sources = [piece for piece in pieces if piece not in below]
    for start in (*reversed(sources), *pieces):
        waiting = [(start, iter(onward[start]))] if start not in done else []
        done.add(start)
        while waiting:
            piece, others = waiting[-1]
            following = next((other for other in others if other not in done), None)
            if following is None:
                order.append(piece)
                waiting.pop()
            else:
                done.add(following)
                waiting.append((following, iter(onward[following])))
    return order[::-1]


def lay_out(
    pieces: Sequence[Slab], ways: Sequence[Route], row_of: Mapping[Slab, int], care: Care = USUAL
) -> LayeredPlaces:
    """Set the position of each piece and the points of each route. Routes must lead downwards."""
    number = {row: number for number, row in enumerate(sorted(set(row_of.values())))}
    row_of = {piece: number[row] for piece, row in row_of.items()}
    rows: list[list[Slab]] = [[] for _ in range(len(number) + 2)]
    for piece in pieces:
        rows[row_of[piece] + 1].append(piece)
    steps = _steps(ways, row_of, rows)
    _order(rows, steps, care.sweeps)
    for _ in range(care.rounds):
        _place_ports(steps)
        _settle(rows, steps, care.settlings)
    straighten(rows, _followers(steps))
    left = min((piece.x for row in rows for piece in row), default=0.0)
    for row in rows:
        for piece in row:
            piece.x -= left
    width = max((piece.x + piece.width for row in rows for piece in row), default=0.0)
    tops, bottoms = _heights(rows, steps)
    return LayeredPlaces(width, bottoms[-1], _courses(ways, steps, tops, bottoms, rows))


def _steps(
    ways: Sequence[Route], row_of: Mapping[Slab, int], rows: list[list[Slab]]
) -> dict[int, list[_Step]]:
    """The steps of each route; lanes and ports are added to their rows."""
    found: dict[int, list[_Step]] = {}
    for way in ways:
        first = row_of[way.tail] + 1 if way.tail is not None else 0
        last = row_of[way.head] + 1 if way.head is not None else len(rows) - 1
        upper = way.tail or _lane(way, rows[0])
        found[way.id] = []
        for row in range(first + 1, last + 1):
            ends = row == last and way.head is not None
            lower = way.head if ends and way.head is not None else _lane(way, rows[row])
            found[way.id].append(_Step(upper, lower, way))
            upper = lower
    return found


def _lane(way: Route, row: list[Slab]) -> Slab:
    middle = LANE / 2
    lane = Slab(LANE, 0.0, {way.id: middle}, {way.id: middle}, fixed=True, lane=True)
    row.append(lane)
    return lane


# Order ---------------------------------------------------------------------------------------


def _order(rows: list[list[Slab]], steps: Mapping[int, list[_Step]], sweeps: int) -> None:
    """Order each row so that there are few crossings, in a few sweeps."""
    down: dict[Slab, list[tuple[Slab, int]]] = defaultdict(list)
    up: dict[Slab, list[tuple[Slab, int]]] = defaultdict(list)
    for each in steps.values():
        for step in each:
            down[step.upper].append((step.lower, step.way.id))
            up[step.lower].append((step.upper, step.way.id))
    for piece, below in down.items():
        if piece.fixed:
            below.sort(key=lambda each, ports=piece.ports_out: ports[each[1]])  # type: ignore[misc]
    for number in range(1, len(rows)):  # begin in the order of the row above
        first: dict[Slab, int] = {}
        for piece in rows[number - 1]:
            for lower, _ in down[piece]:
                first.setdefault(lower, len(first))
        rows[number].sort(key=lambda piece: first.get(piece, len(first)))
    best, fewest = [list(row) for row in rows], _crossings(rows, down)
    for sweep in range(sweeps):
        if not fewest:
            break
        _sweep(rows, up if sweep % 2 == 0 else down, reverse=bool(sweep % 2))
        crossings = _crossings(rows, down)
        if crossings < fewest:
            best, fewest = [list(row) for row in rows], crossings
    for row, ordered in zip(rows, best, strict=True):
        row[:] = ordered
        _pack(row)


def _sweep(
    rows: list[list[Slab]],
    neighbours: Mapping[Slab, list[tuple[Slab, int]]],
    *,
    reverse: bool,
) -> None:
    """Order each row by the means of its neighbours in the row before."""
    for row in rows:
        _pack(row)
    for row in reversed(rows) if reverse else rows:
        means: dict[Slab, float] = {}
        for piece in row:
            near = [
                other.x + (other.ports_in if reverse else other.ports_out).get(id, other.width / 2)
                for other, id in neighbours.get(piece, ())
            ]
            means[piece] = sum(near) / len(near) if near else piece.x + piece.width / 2
        row.sort(key=means.__getitem__)
        _pack(row)


def _pack(row: Iterable[Slab]) -> None:
    """Place pieces side by side, centred."""
    at = 0.0
    for piece in row:
        piece.x = at
        at += piece.width + gap(piece)
    for piece in row:
        piece.x -= at / 2


def _crossings(rows: Sequence[Sequence[Slab]], down: Mapping[Slab, list[tuple[Slab, int]]]) -> int:
    """The number of crossings. Routes of a piece cross only if its ports are fixed."""
    found = 0
    for upper, lower in pairwise(rows):
        place = {piece: number for number, piece in enumerate(lower)}
        seen: list[float] = []
        for piece in upper:
            ends = [
                place[other] + (other.ports_in[id] / other.width if other.fixed else 0.0)
                for other, id in down.get(piece, ())
                if other in place
            ]
            if len(ends) == 1 or piece.fixed:
                for end in ends:
                    at = bisect_right(seen, end)
                    found += len(seen) - at
                    seen.insert(at, end)
                continue
            found += sum(len(seen) - bisect_right(seen, end) for end in ends)
            for end in ends:
                insort(seen, end)
    return found


# Positions -----------------------------------------------------------------------------------


def _place_ports(steps: Mapping[int, list[_Step]]) -> None:
    """Spread the routes of each piece along its edges, in the order of their other ends."""
    leaving: dict[Slab, list[tuple[float, Route]]] = defaultdict(list)
    coming: dict[Slab, list[tuple[float, Route]]] = defaultdict(list)
    for each in steps.values():
        for step in each:
            upper, lower, id = step.upper, step.lower, step.way.id
            if not upper.fixed:
                to = lower.x + (lower.ports_in.get(id, lower.width / 2))
                leaving[upper].append((to, step.way))
            if not lower.fixed:
                start = upper.x + (upper.ports_out.get(id, upper.width / 2))
                coming[lower].append((start, step.way))
    for piece, ways in leaving.items():
        ways.sort(key=lambda each: (each[0], each[1].id))
        _spread(piece.width, [way for _, way in ways], piece.ports_out, labels=True)
    for piece, ways in coming.items():
        ways.sort(key=lambda each: (each[0], each[1].id))
        _spread(piece.width, [way for _, way in ways], piece.ports_in, labels=False)


def slot(way: Route) -> float:
    """The width of a route, with its label, on the lower edge of a piece."""
    return way.label + 12.0 if way.label else 10.0


def _spread(width: float, ways: Sequence[Route], ports: dict[int, float], *, labels: bool) -> None:
    slots = [slot(way) if labels else 12.0 for way in ways]
    scale = min(1.0, (width - 8) / sum(slots))
    at = (width - sum(slots) * scale) / 2
    for way, each in zip(ways, slots, strict=True):
        alone = len(ways) == 1
        ports[way.id] = (
            width / 2 if alone else at + (4 if labels and way.label else each / 2) * scale
        )
        at += each * scale


def _settle(rows: Sequence[list[Slab]], steps: Mapping[int, list[_Step]], settlings: int) -> None:
    """Move pieces towards their neighbours, without changing their order."""
    pulls: dict[Slab, list[tuple[Slab, float, float]]] = defaultdict(list)
    weights: dict[Slab, float] = defaultdict(float)
    for each in steps.values():
        for step in each:
            upper, lower, id = step.upper, step.lower, step.way.id
            weight = 4.0 if upper.lane and lower.lane else 0.15 if step.way.loose else 1.0
            shift = upper.ports_out[id] - lower.ports_in[id]
            pulls[lower].append((upper, shift, weight))
            pulls[upper].append((lower, -shift, weight))
            weights[lower] += weight
            weights[upper] += weight
    pulled = [
        [(piece, pulls.get(piece, ()), weights.get(piece, 0.01)) for piece in row] for row in rows
    ]
    for number in range(settlings):
        for row in pulled if number % 2 == 0 else reversed(pulled):
            if row:
                _settle_row(row)


def _settle_row(row: Sequence[tuple[Slab, Sequence[tuple[Slab, float, float]], float]]) -> None:
    """The positions nearest to the desired ones, by least squares, without overlaps.

    Relative to the left edges of packed pieces, positions must increase: neighbouring pieces that
    would not are moved as one block.
    """
    offset = 0.0
    blocks: list[tuple[float, float, int]] = []  # of each block: weight, weighted sum, count
    offsets = []
    for piece, near, pull in row:
        offsets.append(offset)
        wish = 0.0
        for other, shift, each in near:
            wish += (other.x + shift) * each
        wish = (wish / pull if near else piece.x) - offset
        weight, total, count = pull, pull * wish, 1
        while blocks and blocks[-1][1] * weight > total * blocks[-1][0]:
            before = blocks.pop()
            weight, total, count = before[0] + weight, before[1] + total, before[2] + count
        blocks.append((weight, total, count))
        offset += piece.width + gap(piece)
    at = 0
    for weight, total, count in blocks:
        for number in range(at, at + count):
            row[number][0].x = total / weight + offsets[number]
        at += count


def _followers(steps: Mapping[int, list[_Step]]) -> list[NextInLine]:
    return [
        NextInLine(
            step.upper,
            step.lower,
            step.upper.ports_out[step.way.id] - step.lower.ports_in[step.way.id],
        )
        for each in steps.values()
        for step in each
    ]


def _heights(
    rows: Sequence[Sequence[Slab]], steps: Mapping[int, list[_Step]]
) -> tuple[list[float], list[float]]:
    """The top and bottom of each row; pieces are at the top of their row."""
    labelled = {step.upper for each in steps.values() for step in each[:1] if step.way.label}
    slant: dict[Slab, float] = defaultdict(float)
    for each in steps.values():
        for step in each:
            way = step.way.id
            far = step.upper.x + step.upper.ports_out[way] - step.lower.x - step.lower.ports_in[way]
            slant[step.upper] = max(slant[step.upper], abs(far))
    tops, bottoms = [], []
    at = 0.0
    for number, row in enumerate(rows):
        height = max((p.height + UNDER_LABEL * (p in labelled) for p in row), default=0.0)
        tops.append(at)
        bottoms.append(at + height)
        for piece in row:
            piece.y = at
        at += height
        if row and number + 1 < len(rows) and rows[number + 1]:
            outer = number in {0, len(rows) - 2}
            at += ROW_GAP / 2 if outer else ROW_GAP
            at += min(26.0, 0.06 * max(slant[piece] for piece in row))
    return tops, bottoms


def _courses(
    ways: Sequence[Route],
    steps: Mapping[int, list[_Step]],
    tops: Sequence[float],
    bottoms: Sequence[float],
    rows: Sequence[Sequence[Slab]],
) -> dict[int, list[Point]]:
    """The points of each route: straight down if two are aligned, otherwise with a bend."""
    row_of = {piece: number for number, row in enumerate(rows) for piece in row}
    found: dict[int, list[Point]] = {}
    for way in ways:
        points: list[Point] = []
        for step in steps[way.id]:
            x = step.upper.x + step.upper.ports_out[way.id]
            upper, lower = row_of[step.upper], row_of[step.lower]
            start = tops[upper] if step.upper.lane else step.upper.y + step.upper.height
            points += [(x, start), (x, bottoms[upper])]
            points.append((step.lower.x + step.lower.ports_in[way.id], tops[lower]))
        found[way.id] = points
    return found
