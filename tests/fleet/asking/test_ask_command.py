"""`gradscope ask`: tables, JSON, Parquet, SQL, a page, and errors in one line."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from gradscope import cli
from gradscope.fleet.packages import OLDEST
from tests.fleet.planted import Planted, write

ROOT = Path(__file__).parents[3]


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "fleet", Planted(ranks=3, steps=8, nan=(1, 5, 1)))
    return tmp_path / "fleet"


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as left:
        cli.main(["ask", *arguments])
    captured = capsys.readouterr()
    return int(left.value.code or 0), captured.out, captured.err


def test_questions_are_listed(fleet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "fleet")

    assert code == 0
    assert out.startswith("1 run (base), 3 traces\nquestions\n")
    assert "  first-nan     first NaN or Inf of each run" in out
    _, listed, _ = run(capsys, "fleet", "--json")
    assert [each["name"] for each in json.loads(listed)][:2] == ["collectives", "data"]


def test_an_answer_is_a_table_with_words_and_the_next_command(
    fleet: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, "fleet", "first-nan", "--width", "120")

    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "first NaN or Inf of each run: rank, step, operation and line"
    assert lines[2].split()[:5] == ["5", "addmm", "op_output", "layers.1", "1"]
    assert lines[3].split() == ["5", "later", "0,", "2"]
    assert lines[-1] == "next: gradscope view --step 5 base.rank1.json"
    assert run(capsys, "fleet", "first-nan", "--width", "120", "--plain")[1].isascii()


def test_an_answer_is_json(fleet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    facts = json.loads(run(capsys, "fleet", "first-nan", "--json")[1])

    assert facts["question"] == "first-nan"
    assert [row["ranks"] for row in facts["rows"]] == [[1], [0, 2]]
    assert facts["rows"][0]["line"] == "train.py:11"
    assert facts["notes"] == facts["damaged"] == []


def test_an_answer_is_a_parquet_file(fleet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "fleet", "first-nan", "-o", "x.parquet")

    assert (code, out) == (0, "wrote x.parquet: 2 rows\n")
    assert pq.read_table("x.parquet")["ranks"].to_pylist() == [[1], [0, 2]]
    assert run(capsys, "fleet", "first-nan", "-o", "x.parquet")[0] == 0
    Path("mine.txt").write_text("mine", encoding="utf-8")
    code, _, err = run(capsys, "fleet", "first-nan", "-o", "mine.txt")
    assert (code, "was not written by this command" in err) == (2, True)
    assert Path("mine.txt").read_text(encoding="utf-8") == "mine"


def test_sql_is_shown_printed_and_written(fleet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sql = "SELECT rank, count(*) AS n FROM step GROUP BY rank ORDER BY rank"

    assert (
        run(capsys, "fleet", "--sql", sql)[1]
        == "answer\n  rank  n\n     0  8\n     1  8\n     2  8\n"
    )
    printed = run(capsys, "fleet", "--sql", sql, "--json")[1].splitlines()
    assert [json.loads(line) for line in printed] == [{"rank": rank, "n": 8} for rank in range(3)]
    assert run(capsys, "fleet", "--sql", sql, "-o", "n.parquet")[1] == "wrote n.parquet: 3 rows\n"
    out = run(capsys, "fleet", "--sql", "SELECT step FROM value", "--rows", "2")[1]
    assert out.splitlines()[-1] == "  more rows: --all, --json or -o rows.parquet"


def test_all_rows_are_shown_with_whole_cells(
    fleet: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "one_" * 60
    sql = f"SELECT '{text}' AS text, range(12) AS numbers"
    numbers = " ".join(map(str, range(12)))

    cut = run(capsys, "fleet", "--sql", sql)[1]
    assert (text in cut, numbers in cut, "0 1 2 3 4 5 6 7 …" in cut) == (False, False, True)
    assert run(capsys, "fleet", "--sql", sql, "--all")[1].splitlines()[2].split("  ") == [
        "", text, numbers,
    ]  # fmt: skip
    code = "x = self.layers[1](x)"
    narrow = "fleet", "first-nan", "--width", "60"
    assert [code in run(capsys, *narrow, *more)[1] for more in ((), ("--all",))] == [False, True]


def test_a_part_of_the_fleet_is_asked(fleet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = run(capsys, "fleet", "first-nan", "--steps", "0:4")[1]
    assert out == "no recorded value is NaN or Inf\nasked about steps 0 to 4 only\n"
    facts = json.loads(run(capsys, "fleet", "first-nan", "--rank", "2", "--json")[1])
    assert [row["ranks"] for row in facts["rows"]] == [[2]]
    code, _, err = run(capsys, "fleet", "--page", "x.html")
    assert (code, "name a question" in err, Path("x.html").exists()) == (2, True, False)


def test_a_damaged_file_makes_the_exit_code(
    fleet: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (fleet / "value/run=base/rank=0/part-00000000.parquet").write_bytes(b"")

    code, out, _ = run(capsys, "fleet", "first-nan")

    assert code == 3
    assert "left out: 1 damaged file: value/run=base/rank=0/part-00000000.parquet" in out


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("no", "drift"), 2, "there is no folder no; write one: gradscope export"),
        (("fleet", "drifts"), 2, "there is no question 'drifts'; did you mean drift?"),
        (("fleet", "drift", "--run", "bas"), 2, "no run 'bas'; did you mean base"),
        (("fleet", "drift", "--steps", "x"), 2, "--steps takes 3:7, 3: or 5, not 'x'"),
        (("fleet", "drift", "--steps", "5:2"), 2, "--steps takes 3:7"),
        (("fleet", "drift", "--set", "many"), 2, "--set takes NAME=VALUE, not 'many'"),
        (("fleet", "drift", "--sql", "SELECT 1"), 2, "--sql cannot be combined"),
        (("fleet", "--sql", "DROP TABLE step"), 2, "a fleet is only read"),
        (("fleet", "drift", "--on", "spark://x"), 2, "--on takes dask://HOST:PORT"),
    ],
)
def test_errors_are_one_line(
    fleet: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    code: int,
    words: str,
) -> None:
    ended, out, err = run(capsys, *arguments)

    assert (ended, out) == (code, "")
    assert len(err.splitlines()) == 1
    assert words in err


def test_a_missing_package_is_named(
    fleet: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "duckdb", None)

    code, _, err = run(capsys, "fleet", "drift")

    assert code == 2
    assert "a fleet needs duckdb: pip install 'gradscope-trace[fleet]', or pip install " in err


def test_a_package_that_is_too_old_is_named_with_its_version(
    fleet: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import duckdb

    monkeypatch.setattr(duckdb, "__version__", "1.3.2")

    code, out, err = run(capsys, "fleet", "drift")

    assert (code, out) == (2, "")
    assert "a fleet needs duckdb 1.4 or newer (not 1.3.2): pip install " in err


def test_the_oldest_versions_are_those_that_the_extras_ask_for() -> None:
    facts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    extras = facts["project"]["optional-dependencies"]
    asked = [each for name in ("fleet", "dask", "ray") for each in extras[name]]

    assert {re.sub(r"\[.*\]", "", each) for each in asked} == {
        f"{name}>={version}" for name, version in OLDEST.items()
    }


def test_the_page_is_one_file_that_loads_nothing(
    fleet: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = run(capsys, "fleet", "first-nan", "--page", "page.html")
    text = Path("page.html").read_text(encoding="utf-8")

    assert (code, out) == (0, "wrote page.html: 2 rows\n")
    assert "default-src 'none'" in text
    assert text.count("<rect") == 3 * 8
    assert text.count('named" data-cell') == 3  # all ranks in step 5
    assert "gradscope view --step 5 base.rank1.json" in text
    for outside in ("http:", "https:", "src=", "@import", "url("):
        assert outside not in text
    assert run(capsys, "fleet", "drift", "--page", "page.html")[0] == 0
