"""Straightens lanes and chains, after pieces have been placed in their rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from gradscope.scene.layout.pieces import BESIDE_LANE, BETWEEN, Slab


@dataclass(frozen=True, slots=True)
class NextInLine:
    """A piece in the row below another, and how far to the right it is if the line is straight."""

    upper: Slab
    lower: Slab
    shift: float


def straighten(rows: Iterable[Sequence[Slab]], steps: Sequence[NextInLine]) -> None:
    """Align each chain of pieces as far as there is room, without changing the order of rows."""
    between = _neighbours(rows)
    for chain in _chains(steps):
        run: list[tuple[Slab, float]] = []
        low, high = float("-inf"), float("inf")
        for piece, offset in chain:
            left, right = _room(piece, between[piece])
            left, right = left - offset, right - offset
            if run and (max(low, left) > min(high, right)):
                _align(run, low, high)
                run, low, high = [], float("-inf"), float("inf")
            run.append((piece, offset))
            low, high = max(low, left), min(high, right)
        _align(run, low, high)


def _align(run: Sequence[tuple[Slab, float]], low: float, high: float) -> None:
    """Move pieces to the place in the middle of theirs, within the bounds."""
    places = sorted(piece.x - offset for piece, offset in run)
    place = min(max(places[len(places) // 2], low), high)
    for piece, offset in run:
        piece.x = place + offset


def _chains(steps: Sequence[NextInLine]) -> Iterator[list[tuple[Slab, float]]]:
    """Pieces that follow each other alone, with their distance to the first."""
    leaving = Counter(step.upper for step in steps)
    coming = Counter(step.lower for step in steps)
    after = {step.upper: step for step in steps if leaving[step.upper] == 1 == coming[step.lower]}
    inner = {step.lower for step in after.values()}
    for step in steps:
        if step.upper in after and step.upper not in inner:
            chain = [(step.upper, 0.0)]
            while following := after.get(chain[-1][0]):
                chain.append((following.lower, chain[-1][1] + following.shift))
            yield chain


def _neighbours(rows: Iterable[Sequence[Slab]]) -> dict[Slab, tuple[Slab | None, Slab | None]]:
    return {
        piece: (
            row[place - 1] if place else None,
            row[place + 1] if place + 1 < len(row) else None,
        )
        for row in rows
        for place, piece in enumerate(row)
    }


def _room(piece: Slab, beside: tuple[Slab | None, Slab | None]) -> tuple[float, float]:
    """The places of a piece that keep its distance from its neighbours."""
    before, after = beside
    low = before.x + before.width + gap(before) if before else float("-inf")
    high = after.x - gap(piece) - piece.width if after else float("inf")
    return min(low, piece.x), max(high, piece.x)


def gap(piece: Slab) -> float:
    """The space to the right of a piece."""
    return BESIDE_LANE if piece.lane else BETWEEN
