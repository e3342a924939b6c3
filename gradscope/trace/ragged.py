"""A column whose cells are lists of different lengths, held in two flat arrays."""

from __future__ import annotations

from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Array: TypeAlias = NDArray[Any]
Integers: TypeAlias = NDArray[np.int64]


class Ragged:
    """Lists of numbers: cell i is `values[offsets[i] : offsets[i + 1]]`."""

    __slots__ = ("offsets", "values")

    def __init__(self, offsets: Integers, values: Array) -> None:
        self.offsets = offsets
        self.values = values

    @classmethod
    def of(cls, cells: Sequence[Sequence[float]], dtype: type = np.int64) -> Ragged:
        """Create from one sequence per cell."""
        lengths = np.fromiter(map(len, cells), np.int64, len(cells))
        flat = list(chain.from_iterable(cells))
        return cls.of_lengths(lengths, np.asarray(flat, dtype=dtype))

    @classmethod
    def of_lengths(cls, lengths: Integers, values: Array) -> Ragged:
        """Create from the number of values of each cell and all values in order."""
        offsets = np.zeros(len(lengths) + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        return cls(offsets, values)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, position: int) -> Array:
        if not -len(self) <= position < len(self):
            raise IndexError(position)
        position %= len(self)
        return self.values[self.offsets[position] : self.offsets[position + 1]]

    def __iter__(self) -> Iterator[Array]:
        return (self[position] for position in range(len(self)))

    def __repr__(self) -> str:
        return f"Ragged.of({self.tuples()!r})"

    @property
    def lengths(self) -> Integers:
        """Number of values of each cell."""
        return self.offsets[1:] - self.offsets[:-1]

    @property
    def owners(self) -> Integers:
        """For each of `values`, the index of its cell."""
        return np.repeat(np.arange(len(self)), self.lengths)

    def take(self, positions: Integers) -> Ragged:
        """The cells at these positions, in this order."""
        lengths = self.lengths[positions]
        taken = Ragged.of_lengths(lengths, self.values[:0])
        starts = np.repeat(self.offsets[positions] - taken.offsets[:-1], lengths)
        return Ragged(taken.offsets, self.values[starts + np.arange(len(starts))])

    def tuples(self) -> list[tuple[Any, ...]]:
        """Each cell as a tuple."""
        flat = self.values.tolist()
        ends = self.offsets.tolist()
        return [tuple(flat[start:end]) for start, end in pairwise(ends)]


Data: TypeAlias = Array | Ragged
"""Contents of a column: int64, float64, bool or (raw text) object arrays, or lists of numbers."""


def concatenate(parts: Sequence[Data]) -> Data:
    """Join several ranges of one column. All are ragged, or none is."""
    if len(parts) == 1:
        return parts[0]
    ragged = [part for part in parts if isinstance(part, Ragged)]
    if not ragged:
        return np.concatenate([part for part in parts if not isinstance(part, Ragged)])
    lengths = np.concatenate([part.lengths for part in ragged])
    return Ragged.of_lengths(lengths, np.concatenate([part.values for part in ragged]))


def within(lengths: Integers) -> Integers:
    """For the values of cells of these lengths: the index of each in its cell."""
    return np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)


def take(data: Data, positions: Integers) -> Data:
    """The cells at these positions, in this order."""
    return data.take(positions) if isinstance(data, Ragged) else data[positions]


def part_of(data: Data, start: int, end: int) -> Data:
    """The cells from `start` up to `end`, without copying them."""
    if not isinstance(data, Ragged):
        return data[start:end]
    offsets = data.offsets[start : end + 1]
    return Ragged(offsets - offsets[0], data.values[offsets[0] : offsets[-1]])


def same(left: Data, right: Data) -> bool:
    """Whether two columns are equal, where NaN equals NaN and -0.0 differs from 0.0."""
    if isinstance(left, Ragged) or isinstance(right, Ragged):
        if not (isinstance(left, Ragged) and isinstance(right, Ragged)):
            return False
        return same(left.offsets, right.offsets) and same(left.values, right.values)
    if left.dtype != right.dtype or left.shape != right.shape:
        return False
    if left.dtype.kind == "f":
        signs = (np.signbit(left) == np.signbit(right)) | np.isnan(left)
        return bool(signs.all()) and np.array_equal(left, right, equal_nan=True)
    return np.array_equal(left, right)


def frozen(data: Data) -> Data:
    """The same column, no longer writable."""
    if isinstance(data, Ragged):
        data.offsets.flags.writeable = False
        data.values.flags.writeable = False
    else:
        data.flags.writeable = False
    return data
