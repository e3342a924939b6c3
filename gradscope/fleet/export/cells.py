"""The cells of one column in arrays: numbers or text, with those that are not known."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from gradscope.analysis.lookups import Ids
from gradscope.trace.schema import NONE

Flags = NDArray[np.bool_]


class CellTexts:
    """Different texts, to which the cells of a text column refer by index."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.texts = texts

    @cached_property
    def hashes(self) -> Ids:
        """64 bits of a hash of each text."""
        return np.array([text_hash(text) for text in self.texts], np.int64)


@dataclass(frozen=True, slots=True)
class FleetCells:
    """The cells of one column."""

    values: NDArray[np.generic]  # int64, float64 or bool; of a text column, indices of its texts
    known: Flags | None = None  # which are not NULL; None: all
    texts: CellTexts | None = None

    def take(self, rows: Ids) -> FleetCells:
        """The cells of these rows, in this order."""
        known = None if self.known is None else self.known[rows]
        return FleetCells(self.values[rows], known, self.texts)

    def part(self, first: int, end: int) -> FleetCells:
        """The cells from one row to another, without copying them."""
        known = None if self.known is None else self.known[first:end]
        return FleetCells(self.values[first:end], known, self.texts)

    def digest(self) -> bytes:
        """Tells whether cells have changed, whatever the numbers of their texts are."""
        if self.known is not None and not self.known.any():
            return b""
        values = self.values
        if self.texts is not None:
            values = self.texts.hashes[values] if len(self.texts.texts) else values
        found = 0
        if self.known is not None:
            values = np.where(self.known, values, values.dtype.type(0))
            found = crc32(np.packbits(self.known).data)
        return crc32(np.ascontiguousarray(values).view(np.uint8).data, found).to_bytes(4, "little")


def text_hash(*parts: str) -> int:
    """64 bits of a hash of texts: the same in every process."""
    found = hashlib.blake2b(digest_size=8)
    for part in parts:
        found.update(part.encode("utf-8", "backslashreplace") + b"\0")
    return int.from_bytes(found.digest(), "little", signed=True)


def integers(values: Ids, known: Flags | None = None) -> FleetCells:
    return FleetCells(values, known)


def ids(values: Ids) -> FleetCells:
    """Ids or numbers of which NONE means that there is none."""
    return FleetCells(values, values != NONE)


def reals(values: NDArray[np.float64]) -> FleetCells:
    """Numbers of which NaN means that there is none."""
    return FleetCells(values, ~np.isnan(values))


def nothing(rows: int) -> FleetCells:
    """A column that is NULL in all rows."""
    return FleetCells(np.broadcast_to(np.int64(0), rows), np.broadcast_to(np.False_, rows))


def texts(words: Sequence[str | None]) -> FleetCells:
    """A column of texts; None and "" are NULL."""
    numbers: dict[str, int] = {}
    found = [numbers.setdefault(each, len(numbers)) if each else NONE for each in words]
    return coded(np.array(found, np.int64), list(numbers))


def coded(numbers: Ids, words: Sequence[str]) -> FleetCells:
    """A column of texts by their indices; NONE is NULL."""
    known = numbers != NONE
    return FleetCells(np.where(known, numbers, 0), known, CellTexts(words))


def named(values: Ids, words: Sequence[str]) -> FleetCells:
    """Members of an enum by their lower-case names; those of a later version are NULL."""
    inside = (values >= 0) & (values < len(words))
    return coded(np.where(inside, values, NONE), words)


DENSE = 8
"""Ids are counted in a table if it is at most so much longer than the column."""


def distinct_of(values: Ids) -> tuple[Ids, NDArray[np.intp] | Ids]:
    """The different values in order, and for each row the index of its own; quick for small ids."""
    if not len(values):
        return values, values
    low, high = int(values.min()), int(values.max())
    if high - low >= DENSE * len(values) + 64:
        found, inverse = np.unique(values, return_inverse=True)
        return found, inverse
    shifted = values - low
    there = np.zeros(high - low + 1, bool)
    there[shifted] = True
    found = np.flatnonzero(there)
    place = np.zeros(len(there), np.int64)
    place[found] = np.arange(len(found))
    return found + low, place[shifted]
