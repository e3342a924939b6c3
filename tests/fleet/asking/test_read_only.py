"""SQL that somebody typed reads the fleet, and nothing else; it needs bounded memory."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from gradscope.errors import UsageError
from gradscope.fleet.asking import engine
from gradscope.fleet.asking.engine import PartWork, from_bytes, run_part
from gradscope.fleet.asking.folder import Asked, fleet_at
from gradscope.fleet.asking.free_sql import answered, first_rows
from tests.fleet.planted import Planted, write


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("it's a fleet")
    write(root, Planted(ranks=2, steps=6))
    return root


def asked(root: Path, sql: str, most: int = 0) -> list[dict[str, object]]:
    with answered(fleet_at(root, Asked()), sql) as reader:
        return first_rows(reader, most)[0]


def test_sql_reads_the_tables(root: Path) -> None:
    assert asked(root, "SELECT run, rank, count(*) AS n FROM Step GROUP BY ALL ORDER BY rank") == [
        {"run": "base", "rank": 0, "n": 6}, {"run": "base", "rank": 1, "n": 6},
    ]  # fmt: skip
    assert asked(root, "WITH a AS (SELECT 1 AS x) SELECT x FROM a") == [{"x": 1}]
    assert len(asked(root, "SELECT step FROM value", most=5)) == 5
    assert asked(root, "SELECT count(*) AS n FROM finding") == [{"n": 0}]


@pytest.mark.parametrize(
    "sql",
    [
        "COPY (SELECT 1) TO '{out}'",
        "COPY step TO '{root}/x.parquet'",
        "ATTACH '{out}'",
        "ATTACH '{root}/x.db'",
        "EXPORT DATABASE '{root}/x'",
        "CREATE TABLE x AS SELECT 1",
        "CREATE VIEW x AS SELECT 1",
        "DROP VIEW step",
        "INSERT INTO step SELECT * FROM step",
        "WITH a AS (SELECT 1) INSERT INTO step SELECT * FROM a",
        "SET memory_limit = '99GB'",
        "SET enable_external_access = true",
        "RESET lock_configuration",
        "INSTALL httpfs",
        "LOAD httpfs",
        "PRAGMA enable_profiling",
        "CALL pragma_version()",
        "CHECKPOINT",
        "PREPARE a AS SELECT 1",
        "SELECT 1; SELECT 2",
        "SELECT 1; COPY (SELECT 1) TO '{out}'",
        "",
        "-- nothing",
    ],
)
def test_only_one_select_is_run(root: Path, tmp_path: Path, sql: str) -> None:
    out = tmp_path / "out.csv"
    before = sorted(root.rglob("*"))

    with pytest.raises(UsageError, match="a fleet is only read: give one SELECT"):
        asked(root, sql.format(out=out, root=str(root).replace("'", "''")))

    assert not out.exists()
    assert sorted(root.rglob("*")) == before


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM '/etc/passwd'",
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM read_text('/proc/self/environ')",
        "SELECT * FROM read_blob('{root}/../secret.txt')",
        "SELECT * FROM glob('/etc/*')",
        "SELECT * FROM read_parquet('https://example.com/x.parquet')",
        "SELECT getenv('HOME')",
        "SELECT * FROM query('COPY (SELECT 1) TO ''/tmp/x''')",
        "SELECT * FROM no_such_table",
        "SELEC 1",
        "SELECT no_column FROM step",
    ],
)
def test_nothing_but_the_fleet_is_read(root: Path, sql: str) -> None:
    (root.parent / "secret.txt").write_text("secret", encoding="utf-8")

    with pytest.raises(UsageError, match="the SQL failed: "):
        asked(root, sql.format(root=str(root).replace("'", "''")))


def test_python_objects_of_ours_are_no_tables(root: Path) -> None:
    table = pa.table({"x": [1]})
    assert len(table) == 1

    with pytest.raises(UsageError, match=r"Table with name table does not|syntax error"):
        asked(root, 'SELECT * FROM "table"')


def test_a_question_that_needs_more_memory_goes_through_a_file(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "MEMORY", "60MB")
    monkeypatch.setattr(engine, "_kept", engine._Kept())
    sql = """
        SELECT count(*) AS n, max(place) AS last FROM (
            SELECT row_number() OVER (ORDER BY hash(i)) AS place FROM range(3000000) AS r(i)
        )
    """  # 48 MB in the rows alone, and more to sort them

    answer = from_bytes(run_part(PartWork(str(root), {}, sql))).to_pylist()

    assert answer == [{"n": 3_000_000, "last": 3_000_000}]


def test_what_does_not_fit_at_all_is_said_in_words(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "MEMORY", "60MB")
    monkeypatch.setattr(engine, "SPILL", "1MB")
    monkeypatch.setattr(engine, "_kept", engine._Kept())
    sql = "SELECT list(i) AS l FROM range(30000000) AS r(i)"

    with pytest.raises(UsageError, match=r"needs more than 60MB of memory.*fewer runs"):
        run_part(PartWork(str(root), {}, sql))
