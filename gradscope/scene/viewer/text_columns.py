"""Columns of tables, with the texts they refer to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gradscope.trace.text import visible

LONGEST_TEXT = 2_000

Column: TypeAlias = NDArray[Any]
Json: TypeAlias = "str | int | float | bool | Sequence[Json] | Mapping[str, Json] | None"


def shown(text: object) -> str:
    """The text of a program, with all its characters visible."""
    return visible(str(text), LONGEST_TEXT)


class Texts:
    """Unique texts; a text column holds their places. The first text is empty."""

    def __init__(self) -> None:
        self._places: dict[str, int] = {"": 0}

    def add(self, text: str) -> int:
        """The place of a text, which is stored with all characters visible."""
        return self._places.setdefault(shown(text), len(self._places))

    def column(self, texts: Iterable[str]) -> TextColumn:
        found = [*texts]
        known = {text: self.add(text) for text in dict.fromkeys(found)}
        return TextColumn(np.array([known[text] for text in found], np.int64))

    def all(self) -> tuple[str, ...]:
        return tuple(self._places)


@dataclass(frozen=True, slots=True)
class TextColumn:
    """Places of texts."""

    places: Column


Table: TypeAlias = Mapping[str, "Column | TextColumn"]


@dataclass(frozen=True, slots=True)
class ViewerScene:
    """Everything that the page shows of a trace."""

    facts: Mapping[str, Json]  # about the whole
    tables: Mapping[str, Table]
    texts: tuple[str, ...]
    notes: tuple[str, ...] = ()  # about the steps that it does not show

    def rows(self, table: str) -> int:
        first = next(iter(self.tables[table].values()))
        return len(first.places if isinstance(first, TextColumn) else first)


def ints(values: Iterable[int]) -> Column:
    return np.array([*values], np.int64)


def floats(values: Iterable[float]) -> Column:
    return np.array([*values], np.float64)
