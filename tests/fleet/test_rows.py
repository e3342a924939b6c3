"""What is in the Parquet files is what the trace says, for any trace."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given

from gradscope.fleet.first_bad import COPIES, OP_OUTPUT, OUTSIDE
from gradscope.fleet.manifest import manifests
from gradscope.fleet.tables import TABLES
from gradscope.trace.load_save import save
from gradscope.trace.schema import Step
from gradscope.trace.trace import Trace
from tests.fleet.expected import TABLES as EXPECTED, Expected
from tests.fleet.reading import Row, pq, rows
from tests.render.test_any_trace import together
from tests.shared.by_hand import trace_of
from tests.shared.example_traces import (
    nan_in_backward,
    shared_weight,
    two_layers,
    two_layers_program,
)
from tests.shared.searching import searching
from tests.shared.strategies import traces

exporter = pytest.importorskip("gradscope.fleet.export.exporter")
WITHOUT = exporter.ExportOptions(findings=False)
PATIENT = searching(60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


def exported(folder: Path, trace: Trace, options: Any = WITHOUT) -> Path:
    """A fleet with this trace alone."""
    save(trace, folder / "trace.json")
    fleet = folder / "fleet"
    exporter.Exporter(fleet, "one", options).add(folder / "trace.json")
    return fleet


def compared(fleet: Path, trace: Trace) -> None:
    """Compare all rows of the largest tables with those of the trace."""
    lines = {row["line_hash"]: (row["file"], row["text"] or "") for row in rows(fleet, "line")}
    for table, expected in EXPECTED.items():
        wanted, found = expected(Expected(trace)), rows(fleet, table)
        names = wanted[0].keys() if wanted else ()
        for row in found:
            row["line"] = lines[row["line_hash"]] if row["line_hash"] is not None else None
        shown = [{name: row[name] for name in names} for row in found]
        assert sorted(map(repr, shown)) == sorted(map(repr, wanted)), table
    (listed,) = manifests(fleet)
    for kind in ("bad", "nan"):
        for table in ("value", "grad"):
            assert listed.first_bad(fleet, kind, table) == first_bad(fleet, kind, table)


def first_bad(fleet: Path, kind: str, table: str) -> int | None:
    """The first step with NaN or Inf, as the rows have it."""
    steps = [
        OUTSIDE if row["step"] is None else row["step"]
        for row in rows(fleet, table)
        if (row["bad"] or 0) > 0 and (row[kind] or 0) > 0
        and not (row.get("place") == OP_OUTPUT and (row["name"] or "").split(".")[0] in COPIES)
    ]  # fmt: skip
    return min(steps, default=None)


@PATIENT
@given(trace=traces() | together)
def test_rows_of_any_trace_are_those_of_the_trace(trace: Trace) -> None:
    with TemporaryDirectory() as folder:
        compared(exported(Path(folder), trace), trace)


@pytest.mark.parametrize(
    "trace", [two_layers(3), nan_in_backward(), shared_weight(2)], ids=["steps", "nan", "shared"]
)
def test_rows_of_a_training_are_those_of_the_trace(trace: Trace, tmp_path: Path) -> None:
    fleet = exported(tmp_path, trace)

    compared(fleet, trace)
    assert rows(fleet, "event")


def test_files_have_the_declared_columns(tmp_path: Path) -> None:
    fleet = exported(tmp_path, two_layers(2), exporter.ExportOptions())
    types = {"BIGINT": "int64", "DOUBLE": "double", "BOOLEAN": "bool", "VARCHAR": "string"}

    paths = sorted(fleet.glob("*/run=one/rank=0/part-*.parquet"))

    assert {path.parts[-4] for path in paths} >= {"step", "event", "node", "line", "meta"}
    for path in paths:
        schema = pq.read_schema(path)
        found = {name: str(kind) for name, kind in zip(schema.names, schema.types, strict=True)}
        assert found == {each.name: types[each.type] for each in TABLES[path.parts[-4]].columns}


def test_rows_are_sorted_and_positions_count_from_zero(tmp_path: Path) -> None:
    fleet = exported(tmp_path, two_layers(3))

    for table in ("op", "node", "event", "value"):
        for path in (fleet / table).rglob("part-0*.parquet"):
            keys = [(row["step"], row["k"]) for row in pq.ParquetFile(path).read().to_pylist()]
            assert keys == sorted(keys)
            assert [k for step, k in keys if step == 1] == list(range(_many(keys, 1)))


def _many(keys: list[tuple[int, int]], wanted: int) -> int:
    return sum(step == wanted for step, _ in keys)


def test_steps_that_were_left_out_are_rows(tmp_path: Path) -> None:
    found: list[Row] = rows(exported(tmp_path, _with_gap()), "step")

    assert [(row["step"], row["recorded"]) for row in found] == [(0, True), (1, False), (2, True)]
    assert found[1]["duration_ns"] is None
    assert found[2]["backwards"] == 1


def _with_gap() -> Trace:
    """Three steps, of which the second was not recorded: only the number shows it."""
    program = two_layers_program(2)
    steps = [row for row in program.rows if isinstance(row, Step)]
    moved = {steps[1].id: 2}
    return trace_of(*(
        Step(row.id, moved.get(row.id, row.number), row.begin, row.end)
        if isinstance(row, Step)
        else row
        for row in program.rows
    ))  # fmt: skip
