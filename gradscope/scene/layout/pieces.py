"""What stands in rows, the ways between, and the spaces that both layouts keep."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

Point = tuple[float, float]

WIDEST = 2200.0
"""A row that would be wider goes on in the next."""
BETWEEN = 18.0
"""The space between two pieces of a row."""
BESIDE_LANE = 8.0
LANE = 6.0
ROW_GAP = 26.0
UNDER_LABEL = 14.0
"""The space kept for the labels of ways, below the pieces they start from."""


class Care(NamedTuple):
    """How much is done for an order with few crossings, and for straight ways."""

    sweeps: int
    rounds: int  # where ways leave depends on where they go, and the other way round
    settlings: int


USUAL = Care(6, 2, 10)
QUICK = Care(2, 1, 5)
"""For pictures that nobody sees as a whole."""


@dataclass(slots=True, eq=False)
class Slab:
    """Something that stands in a row. Ways enter above and leave below."""

    width: float
    height: float
    ports_in: dict[int, float] = field(default_factory=dict)  # by way: how far from the left
    ports_out: dict[int, float] = field(default_factory=dict)
    fixed: bool = False  # its ports are where they are
    lane: bool = False
    x: float = 0.0
    y: float = 0.0


@dataclass(frozen=True, slots=True)
class Route:
    """A way between two pieces: None is the outside."""

    id: int
    tail: Slab | None
    head: Slab | None
    label: float = 0.0  # how wide its label is
    loose: bool = False  # it need not be straight
