"""Fleets as other programs read them: Parquet files found by their paths."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pq = pytest.importorskip(
    "pyarrow.parquet", reason="pyarrow is not installed: pip install 'gradscope-trace[fleet]'"
)
Row = dict[str, Any]


def rows(fleet: Path, table: str) -> list[Row]:
    """The rows of a table, by path, with `run` and `rank`."""
    found: list[Row] = []
    for path in sorted((fleet / table).glob("run=*/rank=*/part-*.parquet")):
        run, rank = (part.partition("=")[2] for part in path.parts[-3:-1])
        part = pq.ParquetFile(path).read().to_pylist()
        found += [{"run": run, "rank": int(rank), **row} for row in part]
    return found


def everything(fleet: Path) -> dict[str, list[str]]:
    """All rows of all tables, in an order that does not depend on files."""
    tables = sorted(path.name for path in fleet.iterdir() if not path.name.startswith("_"))
    return {table: sorted(map(repr, rows(fleet, table))) for table in tables}


def files(fleet: Path) -> dict[str, bytes]:
    """Every file, with its bytes."""
    paths = (path for path in fleet.rglob("*") if path.is_file() and path.suffix != ".lock")
    return {str(path.relative_to(fleet)): path.read_bytes() for path in paths}
