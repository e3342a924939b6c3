"""The pieces of rows, the routes between them, and the spacing used by both layouts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

Point = tuple[float, float]

WIDEST = 2200.0
"""A wider row continues in the next."""
BETWEEN = 18.0
"""The space between two pieces of a row."""
BESIDE_LANE = 8.0
LANE = 6.0
ROW_GAP = 26.0
UNDER_LABEL = 14.0
"""The space for labels of routes, below the pieces they start from."""


class Care(NamedTuple):
    """How much work is done for few crossings and straight routes."""

    sweeps: int
    rounds: int  # starts of routes depend on their ends, and vice versa
    settlings: int


USUAL = Care(6, 2, 10)
QUICK = Care(2, 1, 5)
"""For pictures that are not seen as a whole."""


@dataclass(slots=True, eq=False)
class Slab:
    """A piece of a row. Routes enter above and leave below."""

    width: float
    height: float
    ports_in: dict[int, float] = field(default_factory=dict)  # by route: the distance from the left
    ports_out: dict[int, float] = field(default_factory=dict)
    fixed: bool = False  # the positions of its ports are fixed
    lane: bool = False
    x: float = 0.0
    y: float = 0.0


@dataclass(frozen=True, slots=True)
class Route:
    """A route between two pieces; None is the outside."""

    id: int
    tail: Slab | None
    head: Slab | None
    label: float = 0.0  # the width of its label
    loose: bool = False  # it need not be straight
    upward: bool = False  # its arrow goes from its head to its tail
