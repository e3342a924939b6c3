"""Norms, counts of values that are not finite, and hashes, read from memory in few passes.

# Note [Small sums]
Squares are summed in single precision over rows of ROW elements, and the rows in double precision:
that is exact to about five digits, needs one pass and starts no threads. If the sum is finite, all
elements are. If it is not, or too small for squares in single precision, the elements are measured
again with care (notes/statistics.py).
"""

from __future__ import annotations

from functools import cache
from math import isfinite, nan, sqrt
from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

import numpy as np

from gradscope.record.notes.statistics import statistics
from gradscope.watch.in_place.sharded import local_part

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Floats = NDArray[Any]

ROW = 1 << 13
"""Number of elements whose squares are summed in their own precision."""

TINY = 1e-30
"""A sum of squares below this may have lost some of them."""

BLOCK = 1 << 18
"""Number of elements that are converted at once to a dtype that NumPy computes with."""

RUN = 64
"""Number of neighbouring elements that are compared, of a large parameter."""

DIGITS = 6

KINDS: dict[str, np.dtype[Any]] = {
    name: np.dtype(name) for name in ("float32", "float64", "float16")
}
KINDS["bfloat16"] = np.dtype("uint16")  # the upper half of a float32


class NormFound(NamedTuple):
    """What is measured of the elements of one tensor. `norm`: of the finite ones."""

    norm: float
    nan: int = 0
    inf: int = 0


UNREAD = NormFound(nan)


class ReadElements(NamedTuple):
    """The elements of a dense tensor in the order of its memory, and their bytes."""

    array: Floats
    memory: memoryview

    def numbers(self, array: Floats) -> Floats:
        """Some of the elements, in a dtype that NumPy computes with."""
        if array.dtype == np.uint16:
            return (array.astype(np.uint32) << 16).view(np.float32)
        return array.astype(np.float32) if array.dtype == np.float16 else array

    def sample(self, most: int) -> Floats:
        """A copy of all elements, or of at most this many in runs that are spread evenly."""
        array = self.array
        if array.size > most:
            step = -(-array.size * RUN // most)
            rows = array.size // step
            array = array[: rows * step].reshape(rows, step)[:, :RUN].reshape(-1)
        return self.numbers(array.copy())


def elements(tensor: Any, memory: Callable[[Any], memoryview | None]) -> ReadElements | None:
    """The elements of a tensor; None: they are not readable. `memory`: as in EngineLook."""
    tensor = local_part(tensor)
    kind = _kind(tensor.dtype)
    there = None if kind is None else memory(tensor)
    if there is None:
        return None
    array = np.frombuffer(there, kind)
    return ReadElements(array, there) if array.size == tensor.numel() else None


@cache
def _kind(dtype: Any) -> np.dtype[Any] | None:
    return KINDS.get(str(dtype).rpartition(".")[2])


def squares(array: Floats) -> float:
    """The sum of squares, as far as Note [Small sums] says; not finite if an element is not."""
    size = array.size
    if size <= ROW:
        return float(np.dot(array, array))
    rows = size // ROW
    whole = array[: rows * ROW].reshape(rows, ROW)
    rest = array[rows * ROW :]
    total = np.add.reduce(np.einsum("ij,ij->i", whole, whole), dtype=np.float64)
    return float(total) + float(np.dot(rest, rest))


def size_of(read: ReadElements) -> NormFound:
    """The norm of a tensor, and the number of its elements that are not finite."""
    array = read.array
    with np.errstate(all="ignore"):
        if array.dtype.char in "fd":
            total = squares(array)
        else:
            parts = (array[at : at + BLOCK] for at in range(0, array.size, BLOCK))
            total = sum(squares(read.numbers(part)) for part in parts)
        if isfinite(total) and (total > TINY or not array.any()):
            return NormFound(rounded(sqrt(total)))
        found = statistics(read.numbers(array))
    infinite = found.posinf + found.neginf
    return NormFound(rounded(found.norm), found.nan, infinite)


def moved(before: Floats, now: Floats) -> tuple[float, float]:
    """The sums of squares of the differences, and of the elements before."""
    with np.errstate(all="ignore"):
        return squares(now - before), squares(before)


def ratio(moved_squares: float, before_squares: float) -> float:
    """The norm of an update divided by the norm of what was updated; NaN if that was zero."""
    if not before_squares > 0 or not isfinite(moved_squares) or not isfinite(before_squares):
        return nan
    return rounded(sqrt(moved_squares / before_squares))


WIDE = 1 << 10
NO_BITS = -1


def bits(there: memoryview) -> int:
    """A hash of bytes: equal for equal bytes.

    That of the sums of WIDE columns of words of eight bytes, and of the bytes after the last row:
    it is computed as fast as memory is read.
    """
    rows = len(there) // (8 * WIDE)
    found = 0
    if rows:
        words = np.frombuffer(there, np.uint64, rows * WIDE).reshape(rows, WIDE)
        found = crc32(np.add.reduce(words, axis=0).data)
    return crc32(there[rows * WIDE * 8 :], found)


def rounded(value: float) -> float:
    """The value with few digits, which take less space in the trace."""
    return float(f"{value:.{DIGITS}g}")
