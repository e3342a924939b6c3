"""`gradscope merge`, and `--rank` of what shows traces."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradscope import cli
from gradscope.trace.load_save import load, save
from gradscope.trace.schema import Node
from tests.shared.by_hand import trace_of


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for rank, name in enumerate(("ExpBackward0", "SinBackward0")):
        save(trace_of(Node(0, name), meta={"rank": rank}), tmp_path / f"trace.rank{rank}.json")
    return tmp_path


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[object, str, str]:
    with pytest.raises(SystemExit) as left:
        cli.main(list(arguments))
    captured = capsys.readouterr()
    return left.value.code, captured.out, captured.err


def test_one_trace_is_written_of_those_of_the_ranks(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ran = said(capsys, "merge", "trace.rank1.json", "trace.rank0.json", "-o", "all.json")

    assert (ran[0], ran[2]) == (0, "")
    assert ran[1].splitlines() == [
        "wrote all.json: ranks 0, 1; clocks: ranks ran on one machine and share its clock",
        "next: gradscope timeline --rank 0 all.json",
    ]
    assert [node.name for node in load(folder / "all.json").rows(Node)] == [
        "ExpBackward0",
        "SinBackward0",
    ]
    for rank, name in enumerate(("Exp", "Sin")):
        code, out, _ = said(capsys, "render", "--rank", str(rank), "-o", "-", "all.json")
        assert (code, f"{name}Backward0" in out, out.count("Backward0") > 0) == (0, True, True)
        assert "1 node," in said(capsys, "inspect", "--rank", str(rank), "all.json")[1]
    assert "no backward" in said(capsys, "timeline", "--rank", "1", "all.json")[2]
    refused = said(capsys, "inspect", "--rank", "2", "all.json")
    assert refused == (2, "", "gradscope: error: this trace has no rank 2: it has 0, 1\n")


def test_traces_of_ranks_are_read_together(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    both = "trace.rank0.json", "trace.rank1.json"

    assert "2 nodes," in said(capsys, "inspect", *both)[1]
    assert "1 node," in said(capsys, "inspect", "--rank", "1", *both)[1]
    assert said(capsys, "render", *both)[0] == 0
    assert (folder / "trace.svg").exists()
    assert said(capsys, "view", "--no-open", *both)[0] == 0
    assert (folder / "trace.html").exists()
    code, _, error = said(capsys, "inspect", both[0], both[0])
    assert (code, "gradscope diff compares two runs" in error) == (2, True)


def test_a_trace_that_names_no_rank_is_of_the_first(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save(trace_of(Node(0, "CosBackward0")), folder / "alone.json")

    code, out, err = said(capsys, "merge", "alone.json", "trace.rank1.json", "-o", "all.json")

    assert (code, err) == (0, "")
    assert out.startswith("wrote all.json: ranks 0, 1;")
    assert "CosBackward0" in said(capsys, "render", "--rank", "0", "-o", "-", "all.json")[1]


def test_a_whole_is_not_written_over_what_it_is_made_of_or_what_is_no_trace(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "notes.txt").write_text("mine")
    for output, why in (
        ("trace.rank1.json", "one of the traces to merge"),
        ("notes.txt", "is not a trace"),
    ):
        code, _, err = said(capsys, "merge", "trace.rank0.json", "trace.rank1.json", "-o", output)
        assert (code, why in err) == (2, True)
    assert (folder / "notes.txt").read_text() == "mine"
