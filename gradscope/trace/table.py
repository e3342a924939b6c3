"""One table of a trace: its columns as arrays, its rows as dataclasses, looked up by id."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import pairwise
from math import nan
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from gradscope.errors import UnknownNameError
from gradscope.trace.arrays import without
from gradscope.trace.ragged import Array, Data, Integers, Ragged, frozen, part_of, take
from gradscope.trace.schema.declare import NONE, Column, Row, columns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

R_co = TypeVar("R_co", bound=Row, covariant=True)
T = TypeVar("T")

CHUNK = 4096
"""Number of rows created at a time when iterating over a table: fast, and little memory."""


@dataclass(frozen=True, slots=True)
class Block:
    """Some rows of one table. An amendment refers to rows by id and fills in some columns."""

    table: str
    rows: int
    data: Mapping[str, Data]
    amend: bool = False
    common: int = field(default=NONE, compare=False)  # its number among those that files share

    def take(self, rows: Integers) -> Block:
        """The rows at these positions."""
        data = {name: take(column, rows) for name, column in self.data.items()}
        return Block(self.table, len(rows), data, self.amend)


class Strings:
    """The interned text of a trace, by string id. Id 0 and NONE are the empty string."""

    def __init__(self, ids: Integers, texts: Array) -> None:
        self._by_id: dict[int, str] = dict(zip(ids.tolist(), texts.tolist(), strict=True))
        self._by_id[0] = self._by_id[NONE] = ""
        self._dense = sorted(self._by_id) == list(range(NONE, len(self._by_id) - 1))

    def __getitem__(self, id: int) -> str:
        try:
            return self._by_id[id]
        except KeyError:
            raise UnknownNameError(f"there is no string {id} in this trace") from None

    def get_all(self, ids: Array) -> list[str]:
        """The text of each id."""
        try:
            return [self._by_id[id] for id in ids.tolist()]
        except KeyError as error:
            raise UnknownNameError(f"there is no string {error} in this trace") from None

    def holds(self, least: int, greatest: int) -> bool:
        """Whether all ids from one to the other surely refer to a string."""
        return self._dense and least >= NONE and greatest < len(self._by_id) - 1

    def missing(self, ids: Integers) -> Integers:
        """The ids that do not refer to a string."""
        if self._dense:
            return ids[(ids < NONE) | (ids >= len(self._by_id) - 1)]
        return without(ids, np.fromiter(self._by_id, np.int64, len(self._by_id)))


class FrozenColumns(dict[str, Data]):
    """Columns that are no longer writable; several tables may share them."""

    text_ids: tuple[int, int] | None = None
    """The least and the greatest id of text in them, once they have been looked for."""

    def greatest(self, name: str) -> int:
        """The greatest number in a column, which is looked for once."""
        if name not in self._greatest:
            self._greatest[name] = int(np.asarray(self[name]).max())
        return self._greatest[name]

    @cached_property
    def _greatest(self) -> dict[str, int]:
        return {}


class Table(Generic[R_co]):
    """The rows of one kind, column by column. Read-only."""

    def __init__(
        self, name: str, row: type[R_co] | None, data: Mapping[str, Data], strings: Strings
    ) -> None:
        self.name = name
        self.row_type = row
        """The dataclass of its rows; None if this gradscope does not know the table."""
        self.data: Mapping[str, Data] = (
            data
            if isinstance(data, FrozenColumns)
            else FrozenColumns({key: frozen(value) for key, value in data.items()})
        )
        """Every column, including those this gradscope does not know."""
        self.strings = strings
        """The texts that its columns refer to."""
        self._length = len(next(iter(self.data.values()))) if self.data else 0

    def __len__(self) -> int:
        return self._length

    def part(self, start: int, end: int) -> Table[R_co]:
        """Its rows from `start` up to `end`; a column is cut when it is first read."""
        made: Table[R_co] = Table(self.name, self.row_type, {}, self.strings)
        made.data, made._length = _CutColumns(self.data, start, end), end - start
        return made

    def __repr__(self) -> str:
        return f"<{self.name}: {len(self)} rows>"

    def __getitem__(self, column: str) -> Any:
        """The column's array (int64, float64 or bool; text as string ids), or its Ragged."""
        try:
            return self.data[column]
        except KeyError:
            known = ", ".join(self.data)
            raise UnknownNameError(
                f"table {self.name} has no column {column!r}; it has {known}"
            ) from None

    def array(self, column: str) -> Array:
        """A column of single values."""
        data = self[column]
        assert not isinstance(data, Ragged)
        return np.asarray(data)

    def ragged(self, column: str) -> Ragged:
        """A column of lists."""
        data = self[column]
        assert isinstance(data, Ragged)
        return data

    def texts(self, column: str) -> list[str]:
        """A column of text, as text."""
        data = self.array(column)
        return data.tolist() if data.dtype == object else self.strings.get_all(data)

    def lists_of_texts(self, column: str) -> list[tuple[str, ...]]:
        """A column of lists of text, as text."""
        return self._texts_in(self.ragged(column))

    def _texts_in(self, data: Ragged) -> list[tuple[str, ...]]:
        return _cut(self.strings.get_all(data.values), data)

    @property
    def text_columns(self) -> frozenset[str]:
        """The columns with ids of interned text."""
        known = columns(self.row_type) if self.row_type else ()
        return frozenset(column.name for column in known if column.interned)

    @cached_property
    def _dense_from(self) -> int | None:
        """The first id, if the ids count up from there without a gap (they nearly always do)."""
        ids = self.array("id")
        first = int(ids[0]) if len(ids) else 0
        return first if np.array_equal(ids, np.arange(first, first + len(ids))) else None

    @cached_property
    def _sorted(self) -> tuple[Integers, Integers]:
        ids = self.array("id")
        order = np.argsort(ids, kind="stable")
        return ids[order], order

    def positions(self, ids: Array) -> Integers:
        """The positions of the rows with these ids; NONE for those that do not exist."""
        ids = np.asarray(ids, np.int64)
        if self._dense_from is not None:
            inside = (ids >= self._dense_from) & (ids < self._dense_from + len(self))
            return np.where(inside, ids - self._dense_from, NONE)
        rising, order = self._sorted
        found = np.minimum(np.searchsorted(rising, ids), len(rising) - 1)
        return np.where(rising[found] == ids, order[found], NONE)

    def index(self, id: int) -> int:
        """The position of the row with this id."""
        position = self._find(id)
        if position == NONE:
            raise UnknownNameError(f"there is no {self.name} {id} in this trace")
        return position

    def has(self, id: int) -> bool:
        """Whether there is a row with this id."""
        return self._find(id) != NONE

    def _find(self, id: int) -> int:
        if self._dense_from is not None:
            position = id - self._dense_from
            return position if 0 <= position < len(self) else NONE
        rising, order = self._sorted
        found = int(np.searchsorted(rising, id))
        return int(order[found]) if found < len(rising) and rising[found] == id else NONE

    def row(self, id: int) -> R_co:
        """The row with this id."""
        return self.at(self.index(id))

    def chain(self, id: int, column: str) -> Iterator[R_co]:
        """The row with this id, the row its column refers to, and so on; each at most once."""
        seen: set[int] = set()
        while id not in seen and self.has(id):
            seen.add(id)
            row = self.row(id)
            yield row
            id = getattr(row, column)

    def at(self, position: int) -> R_co:
        """The row at this position."""
        if not 0 <= position < len(self):
            raise UnknownNameError(
                f"{self.name} has {len(self)} rows, there is none at position {position}"
            )
        if self.row_type is None:
            raise UnknownNameError(f"this gradscope does not know the rows of table {self.name}")
        return self.row_type(
            *(
                self._cell(column, self.data[column.name], position)
                for column in columns(self.row_type)
            )
        )

    def rows(self) -> Iterator[R_co]:
        """All rows, in the order they were written."""
        for start in range(0, len(self), CHUNK):
            end = min(start + CHUNK, len(self))
            yield from self._rows(partial(part_of, start=start, end=end))

    def take(self, positions: Integers) -> list[R_co]:
        """The rows at these positions, text resolved, lists as tuples."""
        return self._rows(lambda data: take(data, positions))

    def _rows(self, cut: Callable[[Data], Data]) -> list[R_co]:
        if self.row_type is None:
            raise UnknownNameError(f"this gradscope does not know the rows of table {self.name}")
        cells = [
            self._cells(column, cut(self.data[column.name])) for column in columns(self.row_type)
        ]
        return [self.row_type(*values) for values in zip(*cells, strict=True)]

    def _cell(self, column: Column, data: Data, position: int) -> Any:
        """Like `_cells`, for one row: without slices of all columns, which take longer."""
        if isinstance(data, Ragged):
            return self._cells(column, part_of(data, position, position + 1))[0]
        value = data.item(position)
        if column.interned:
            return self.strings[value]
        return value if value == value else nan  # noqa: PLR0124

    def _cells(self, column: Column, data: Data) -> list[Any]:
        if isinstance(data, Ragged):
            return self._texts_in(data) if column.interned else _cut(_flat(data.values), data)
        if column.interned:
            return self.strings.get_all(data)
        return _flat(data)


class _CutColumns(Mapping[str, Data]):
    """Some rows of columns."""

    def __init__(self, whole: Mapping[str, Data], start: int, end: int) -> None:
        self._whole, self._start, self._end = whole, start, end
        self._cut: dict[str, Data] = {}

    def __getitem__(self, name: str) -> Data:
        if name not in self._cut:
            self._cut[name] = frozen(part_of(self._whole[name], self._start, self._end))
        return self._cut[name]

    def __contains__(self, name: object) -> bool:
        return name in self._whole

    def __iter__(self) -> Iterator[str]:
        return iter(self._whole)

    def __len__(self) -> int:
        return len(self._whole)


def _flat(data: Array) -> list[Any]:
    """The values; floats with the same NaN object, so that equal rows compare equal."""
    if data.dtype.kind == "f":
        return [value if value == value else nan for value in data.tolist()]  # noqa: PLR0124
    return list(data.tolist())


def _cut(flat: list[T], data: Ragged) -> list[tuple[T, ...]]:
    return [tuple(flat[first:last]) for first, last in pairwise(data.offsets.tolist())]
