"""A damaged file is left out and named; the rest is answered."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gradscope.errors import UnreadableTraceError, UsageError
from gradscope.fleet.asking.answer import Asking, FleetAnswer
from gradscope.fleet.asking.folder import Asked, fleet_at
from gradscope.fleet.asking.question import question_called
from tests.fleet.planted import Planted, write


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write(tmp_path, Planted(ranks=3, steps=8, nan=(1, 5, 1)))
    return tmp_path


def ask(root: Path, name: str) -> FleetAnswer:
    question = question_called(name)
    return Asking(fleet_at(root, Asked()), question, dict(question.parameters)).answer()


def value_of(root: Path, rank: int) -> Path:
    return root / "value" / "run=base" / f"rank={rank}" / "part-00000000.parquet"


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: b"",
        lambda content: content[: len(content) // 2],
        lambda content: content[:-8] + b"\xff\xff\xff\x7fPAR1",
        lambda content: b"no Parquet at all" * 100,
    ],
    ids=["empty", "cut", "footer", "text"],
)
def test_a_damaged_file_is_left_out_and_named(root: Path, damage: Callable[[bytes], bytes]) -> None:
    path = value_of(root, 0)
    path.write_bytes(damage(path.read_bytes()))

    answer = ask(root, "first-nan")

    assert [row["ranks"] for row in answer.rows] == [[1], [0, 2]]  # rank 0 has gradients
    assert answer.damaged == (str(path),)
    assert answer.notes[-1].startswith("left out: 1 damaged file: value/run=base/rank=0/part-")


def test_a_file_that_is_gone_is_left_out_and_named(root: Path) -> None:
    value_of(root, 2).unlink()

    answer = ask(root, "first-nan")

    assert [row["ranks"] for row in answer.rows] == [[1], [0, 2]]
    assert answer.damaged == (str(value_of(root, 2)),)


def test_a_damaged_line_table_costs_the_line_only(root: Path) -> None:
    for path in root.glob("line/*/*/*.parquet"):
        path.write_bytes(b"PAR1")

    answer = ask(root, "first-nan")

    assert [(row["ranks"], row["line"]) for row in answer.rows] == [([1], None), ([0, 2], None)]
    assert len(answer.damaged) == 3


def test_a_folder_that_is_no_fleet_is_explained(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"there is no folder .*gradscope export"):
        fleet_at(tmp_path / "no", Asked())
    with pytest.raises(UnreadableTraceError, match="is no fleet"):
        fleet_at(tmp_path, Asked())


def test_a_damaged_manifest_is_named(root: Path) -> None:
    (root / "_manifest" / "run=base" / "rank=1.json").write_text("{", encoding="utf-8")

    with pytest.raises(UsageError, match=r"rank=1\.json' is damaged"):
        ask(root, "first-nan")
