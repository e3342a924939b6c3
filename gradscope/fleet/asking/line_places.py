"""The lines and the trace files that the rows of an answer are about."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from gradscope.fleet.asking.engine import PartWork, from_bytes, run_part
from gradscope.fleet.asking.folder import Fleet

if TYPE_CHECKING:
    import pyarrow as pa

AT_ONCE = 32
"""Number of files that are searched together: most ranks run the same lines."""


def with_places(fleet: Fleet, table: pa.Table, without: set[str]) -> pa.Table:
    """The table with the columns `line` ("train.py:41"), `code` and `trace`, where they are known.

    A line is looked up by `line_hash`, in all runs; a trace by `run` and `rank`.
    """
    names = table.column_names
    if "line_hash" in names:
        wanted = {each for each in table["line_hash"].to_pylist() if each is not None}
        lines = _lines(fleet, wanted, without)
        places = [lines.get(each, (None, None)) for each in table["line_hash"].to_pylist()]
        table = _added(table, "line", [place for place, _ in places])
        table = _added(table, "code", [code for _, code in places])
    if {"run", "rank"} <= {*names} and len(table):
        pairs = [*zip(table["run"].to_pylist(), table["rank"].to_pylist(), strict=True)]
        traces = traces_of(fleet.only(pairs[:AT_ONCE]), without)
        table = _added(table, "trace", [traces.get(pair) for pair in pairs])
    return table


def _added(table: pa.Table, name: str, values: Iterable[Any]) -> pa.Table:
    import pyarrow as pa

    return table.append_column(name, pa.array([*values], pa.string()))


def _lines(fleet: Fleet, wanted: set[int], without: set[str]) -> dict[int, tuple[str, str]]:
    found: dict[int, tuple[str, str]] = {}
    files = [each.path for each in fleet.files("line") if each.path not in without]
    sql = """
        SELECT line_hash, any_value(concat(file, ':', line)) AS place, any_value(text) AS code
        FROM line WHERE list_contains($wanted, line_hash) GROUP BY line_hash
    """
    for at in range(0, len(files), AT_ONCE):
        left = wanted - found.keys()
        if not left:
            break
        rows = _rows(fleet, "line", files[at : at + AT_ONCE], sql, {"wanted": [*left]})
        found.update((each["line_hash"], (each["place"], each["code"])) for each in rows)
    return found


def traces_of(fleet: Fleet, without: set[str]) -> dict[tuple[str, int], str]:
    """The name of the trace file of each run and rank."""
    files = [each.path for each in fleet.files("meta") if each.path not in without]
    rows = _rows(fleet, "meta", files, "SELECT run, rank, trace FROM meta", {})
    return {(each["run"], each["rank"]): each["trace"] for each in rows if each["trace"]}


def _rows(
    fleet: Fleet, table: str, files: list[str], sql: str, given: dict[str, Any]
) -> list[dict[str, Any]]:
    work = PartWork(str(fleet.root), {table: files}, sql, given)
    rows: list[dict[str, Any]] = from_bytes(run_part(work)).to_pylist()
    return rows
