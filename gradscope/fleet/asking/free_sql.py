"""SQL that somebody typed: read-only, over the tables of a fleet, row by row."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from gradscope.fleet.asking.engine import PartWork, errors_in_words, only_select, tables_of
from gradscope.fleet.asking.folder import Fleet
from gradscope.fleet.tables import TABLES

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

WORD = re.compile(r"\w+")
BATCH = 8_192
"""Number of rows that are read at once."""


@contextmanager
def answered(fleet: Fleet, sql: str) -> Iterator[pa.RecordBatchReader]:
    """The rows of one SELECT, which are read as they are needed."""
    words = {each.lower() for each in WORD.findall(sql)}
    files = {
        name: [each.path for each in fleet.files(name)]
        for name in TABLES
        if name in words or words & {"show", "tables", "information_schema"}
    }
    work = PartWork(str(fleet.root), files, sql, steps=fleet.asked.steps)
    with errors_in_words(), tables_of(work) as connection:
        only_select(connection, sql)
        reader = _reader(connection.sql(sql))
        try:
            yield reader
        finally:
            reader.close()  # some rows may not have been read


def _reader(rows: duckdb.DuckDBPyRelation) -> pa.RecordBatchReader:
    if hasattr(rows, "to_arrow_reader"):
        return rows.to_arrow_reader(BATCH)
    return rows.fetch_record_batch(BATCH)  # the name of it in DuckDB 1.4


def first_rows(reader: pa.RecordBatchReader, most: int) -> tuple[list[dict[str, Any]], bool]:
    """The first rows, and whether there are more. `most`: 0 for all."""
    rows: list[dict[str, Any]] = []
    for batch in reader:
        rows += batch.to_pylist()
        if most and len(rows) > most:
            return rows[:most], True
    return rows, False
