"""Converts the rows a producer passes to columns of their declared types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from gradscope.errors import UsageError
from gradscope.trace.assemble import DTYPES
from gradscope.trace.ragged import Array, Data, Ragged
from gradscope.trace.schema.declare import NONE, Column, Row, columns
from gradscope.trace.schema.tables import String
from gradscope.trace.table import Block

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Values: TypeAlias = "Data | Sequence[Any]"


def prepared(
    row: type[Row], values: Mapping[str, Values], *, amend: bool, texts: int
) -> Block | None:
    """The rows as a block; None if there are none. `texts`: number of interned texts.

    Arrays are copied, so that a producer may reuse its buffers. A read-only array with the type of
    the column is not copied.
    """
    known = {column.name: column for column in columns(row)}
    strangers = values.keys() - known.keys()
    if strangers or row is String:
        raise UsageError(
            f"table {row.TABLE} has no column {', '.join(sorted(strangers))}"
            if strangers
            else "text is interned, not written as rows: call intern()"
        )
    if amend and not {"id"} < values.keys():
        raise UsageError(f"an amendment of {row.TABLE} needs ids and columns to change")
    data = {name: _column(row, known[name], given) for name, given in values.items()}
    lengths = {len(column) for column in data.values()}
    if len(lengths) != 1:
        shown = ", ".join(f"{name} {len(column)}" for name, column in data.items())
        raise UsageError(f"the columns of {row.TABLE} differ in length: {shown or 'no columns'}")
    rows = lengths.pop()
    if not rows:
        return None
    for name, column in data.items():
        if known[name].interned:
            ids = column.values if isinstance(column, Ragged) else column
            _check_texts(row, name, ids, texts)
    return Block(row.TABLE, rows, data, amend)


def _check_texts(row: type[Row], name: str, ids: Array, texts: int) -> None:
    if not len(ids):
        return
    least, greatest = int(ids.min()), int(ids.max())
    if least < NONE or greatest >= texts:
        stranger = least if least < NONE else greatest
        raise UsageError(f"column {row.TABLE}.{name} has text id {stranger}, not from intern()")


def _column(row: type[Row], column: Column, given: Values) -> Data:
    dtype = np.dtype(DTYPES[column.stored])
    try:
        if not column.many:
            return _array(given, dtype)
        if isinstance(given, Ragged):
            return Ragged(_array(given.offsets, np.dtype(np.int64)), _array(given.values, dtype))
        return Ragged.of(list(given), dtype.type)
    except (TypeError, ValueError, OverflowError) as error:
        raise UsageError(f"column {row.TABLE}.{column.name} holds {dtype}: {error}") from None


def _array(given: Values, dtype: np.dtype[Any]) -> Array:
    if isinstance(given, np.ndarray) and given.dtype == dtype and not given.flags.writeable:
        return np.ascontiguousarray(given)
    array = np.asarray(given)
    if array.ndim != 1:
        raise ValueError(f"expected 1 dimension, not {array.ndim}")
    if not array.size or (dtype == np.bool_ and array.dtype.kind in "iu"):
        return array.astype(dtype)
    if array.dtype.kind == "u" and array.max() >= 2**63:
        raise OverflowError(f"{array.max()} has more than 63 bits")
    return array.astype(dtype, casting="same_kind")
