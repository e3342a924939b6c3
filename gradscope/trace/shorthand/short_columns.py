"""Short tables as columns of checked integers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gradscope.errors import UnreadableTraceError
from gradscope.trace.ragged import Ragged, concatenate
from gradscope.trace.schema.declare import Row, columns

if TYPE_CHECKING:
    from gradscope.trace.table import Block

Ints: TypeAlias = NDArray[np.int64]


class ShortColumns:
    """One short table: all its blocks joined, one column per field."""

    def __init__(self, row: type[Row], blocks: Sequence[Block]) -> None:
        self.rows = sum(block.rows for block in blocks)
        self._data = {
            column.name: _joined(row, column.name, many=column.many, blocks=blocks)
            for column in columns(row)
        }
        self._name = row.TABLE

    def __getitem__(self, name: str) -> Ints:
        column = self._data[name]
        assert not isinstance(column, Ragged)
        return column

    def ragged(self, name: str) -> Ragged:
        column = self._data[name]
        assert isinstance(column, Ragged)
        return column

    def within(self, name: str, low: int, high: int) -> Ints:
        """A column whose cells must lie in range(low, high)."""
        column = self[name]
        if len(column) and (int(column.min()) < low or int(column.max()) >= high):
            raise UnreadableTraceError(
                f"{self._name}.{name} must be between {low} and {high - 1}, "
                f"but has values from {int(column.min())} to {int(column.max())}"
            )
        return column


def _joined(row: type[Row], name: str, *, many: bool, blocks: Sequence[Block]) -> Ints | Ragged:
    parts = [block.data.get(name) for block in blocks]
    if not parts:
        empty = np.zeros(0, np.int64)
        return Ragged(np.zeros(1, np.int64), empty) if many else empty
    for part in parts:
        values = part.values if isinstance(part, Ragged) else part
        if values is None or isinstance(part, Ragged) != many or values.dtype.kind != "i":
            raise UnreadableTraceError(f"{row.TABLE}.{name} is missing or holds no integers")
    joined = concatenate([part for part in parts if part is not None])
    return joined if isinstance(joined, Ragged) else np.asarray(joined, np.int64)


def lookup(keys: Ints, values: Ints, wanted: Ints, otherwise: int) -> Ints:
    """The value of each wanted key; `otherwise` if there is none."""
    if not len(keys):
        return np.full(len(wanted), otherwise)
    order = np.argsort(keys, kind="stable")
    place = np.minimum(np.searchsorted(keys[order], wanted, side="right") - 1, len(keys) - 1)
    place = np.maximum(place, 0)
    found = keys[order][place] == wanted
    return np.where(found, values[order][place], otherwise)


Tables: TypeAlias = Mapping[str, ShortColumns]
