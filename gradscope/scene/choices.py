"""Options of pictures that are chosen by name; here since the command line lists them."""

from __future__ import annotations

from enum import StrEnum


class GraphOf(StrEnum):
    """The graph of a program to draw."""

    FORWARD = "forward"
    BACKWARD = "backward"
    BOTH = "both"
    PLAN = "plan"  # of captured steps


class ColorBy(StrEnum):
    """What colour stands for."""

    KIND = "kind"
    TIME = "time"
    GRAD = "grad"
    STRUCTURE = "structure"


class GroupBy(StrEnum):
    """Which boxes share a frame."""

    MODULE = "module"
    NONE = "none"


class SortBy(StrEnum):
    """The order in which the nodes of a backward are listed."""

    ORDER = "order"  # as they ran
    TIME = "time"  # those that took longest first


class RankHeat(StrEnum):
    """What a table of ranks and steps shows."""

    TIME = "time"
    GRADIENT = "gradient"
    NON_FINITE = "non-finite"
    ALIKE = "alike"
