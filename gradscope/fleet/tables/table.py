"""What a table of a fleet and its columns are."""

from __future__ import annotations

from dataclasses import dataclass

INTEGER, REAL, YES, TEXT = "BIGINT", "DOUBLE", "BOOLEAN", "VARCHAR"
"""Types of columns, as SQL names them."""


@dataclass(frozen=True, slots=True)
class FleetColumn:
    """One column of a table."""

    name: str
    type: str  # INTEGER, REAL, YES or TEXT
    meaning: str


@dataclass(frozen=True, slots=True)
class FleetTable:
    """One table: a row is what `meaning` says."""

    name: str
    meaning: str
    columns: tuple[FleetColumn, ...]
    by_step: bool = True  # its files hold some steps each; else one file holds all rows of a rank

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)


KEYS = (
    "step BIGINT  number of the step; NULL: outside of steps",
    "k BIGINT  position within the step, from 0",
)
"""Columns that every table with rows by step begins with."""

LINE = "line_hash BIGINT  the line of the program: see table line"
"""A column that several tables have."""


def _column(text: str) -> FleetColumn:
    names, _, meaning = text.partition("  ")
    name, _, kind = names.partition(" ")
    return FleetColumn(name, kind, meaning)


def table(name: str, meaning: str, *columns: str, by_step: bool = True) -> FleetTable:
    every = (*(KEYS if by_step else ()), *columns)
    return FleetTable(name, meaning, tuple(map(_column, every)), by_step)
