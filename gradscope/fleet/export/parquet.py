"""Writes the columns of a table to a Parquet file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np

from gradscope.fleet.export.cells import FleetCells
from gradscope.fleet.packages import needs
from gradscope.fleet.tables import INTEGER, REAL, TEXT, YES, FleetTable

ROW_GROUP = 122_880
"""Rows of a row group: as many as DuckDB gives to one thread."""
PAGE = 20_000
"""Rows of a page: a reader that wants few rows reads few pages."""
LEVEL = 3
"""Of Zstandard."""


def pyarrow() -> Any:
    """The package that writes Parquet files. Raises MissingProgramError if it is missing."""
    needs(("pyarrow",))
    import pyarrow.parquet  # noqa: PLC0415  optional, and slow

    return pyarrow


def write_parquet(path: Path, table: FleetTable, columns: Mapping[str, FleetCells]) -> int:
    """Write a file, and return the number of its bytes."""
    arrow = pyarrow()
    kinds = {INTEGER: arrow.int64(), REAL: arrow.float64(), YES: arrow.bool_(), TEXT: arrow.utf8()}
    arrays = [_array(arrow, kinds[each.type], columns[each.name]) for each in table.columns]
    made = arrow.Table.from_arrays(arrays, names=list(table.names))
    encodings = {
        each.name: "DELTA_BINARY_PACKED" if each.type == INTEGER else "BYTE_STREAM_SPLIT"
        for each in table.columns
        if each.type in {INTEGER, REAL}
    }
    words = [each.name for each in table.columns if each.type == TEXT]
    filtered = {"line_hash": {"ndv": _lines(columns), "fpp": 0.01}}
    settings = {
        "compression": "zstd",
        "compression_level": LEVEL,
        "use_dictionary": words,
        "column_encoding": encodings,
        "write_page_index": True,
        "max_rows_per_page": PAGE,
        "bloom_filter_options": filtered if "line_hash" in columns else None,
        "store_schema": False,  # texts are read as texts, not as dictionaries
    }
    known = {name: value for name, value in settings.items() if name in _offered()}
    with path.open("wb") as file:
        arrow.parquet.write_table(made, file, row_group_size=ROW_GROUP, **known)
        file.flush()
        os.fsync(file.fileno())
        return file.tell()


@cache
def _offered() -> frozenset[str]:
    """The settings that this version of pyarrow has."""
    return frozenset(signature(pyarrow().parquet.ParquetWriter).parameters)


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a small file."""
    rows: list[dict[str, Any]] = pyarrow().parquet.ParquetFile(path).read().to_pylist()
    return rows


def _lines(columns: Mapping[str, FleetCells]) -> int:
    """About how many different lines there are: it decides the size of the filter."""
    cells = columns.get("line_hash")
    return 16 + 2 * len(set(cells.values[::16].tolist())) if cells is not None else 1


def _array(arrow: Any, kind: Any, cells: FleetCells) -> Any:
    known = cells.known
    if known is not None and not known.any():
        return arrow.nulls(len(cells.values), kind)
    mask = None if known is None or known.all() else ~known
    if cells.texts is None:
        return arrow.array(cells.values, kind, mask=mask)
    used = np.zeros(len(cells.texts.texts), bool)
    used[cells.values if mask is None else cells.values[known]] = True
    places = np.cumsum(used) - 1
    words = [_encodable(cells.texts.texts[at]) for at in np.flatnonzero(used).tolist()]
    numbers = np.where(used[cells.values], places[cells.values], 0).astype(np.int32)
    numbered = arrow.array(numbers, mask=mask)
    return arrow.DictionaryArray.from_arrays(numbered, arrow.array(words, arrow.utf8()))


def _encodable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()
