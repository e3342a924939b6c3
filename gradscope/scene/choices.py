"""What a person may choose by name about a picture; apart, since the command line names them."""

from __future__ import annotations

from enum import StrEnum


class GraphOf(StrEnum):
    """Which graph of a program is drawn."""

    FORWARD = "forward"
    BACKWARD = "backward"
    BOTH = "both"
    PLAN = "plan"  # of captured steps


class ColorBy(StrEnum):
    """What colour tells."""

    KIND = "kind"
    TIME = "time"
    GRAD = "grad"


class GroupBy(StrEnum):
    """Which boxes are framed together."""

    MODULE = "module"
    NONE = "none"


class SortBy(StrEnum):
    """In which order the nodes of a backward are listed."""

    ORDER = "order"  # as they ran
    TIME = "time"  # those that took longest first
