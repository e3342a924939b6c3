"""`gradscope export`: what it says, and how it ends."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gradscope import cli
from gradscope.errors import ExitCode
from tests.fleet.growing import windows, written
from tests.fleet.reading import files, rows


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[object, str, str]:
    with pytest.raises(SystemExit) as left:
        cli.main(["export", "--to", "fleet", *arguments])
    captured = capsys.readouterr()
    return left.value.code, captured.out, captured.err


@pytest.fixture
def ranks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Traces of two ranks, in the current folder."""
    monkeypatch.chdir(tmp_path)
    names = [f"trace.rank{rank}.json" for rank in range(2)]
    for rank, name in enumerate(names):
        written(Path(name), steps=2, rank=rank)
    return names


def test_it_says_what_was_added_and_what_to_do_next(
    ranks: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = said(capsys, "--run", "lr3e-4", *ranks)

    many = sum(len(rows(Path("fleet"), path.name)) for path in Path("fleet").glob("[a-z]*"))
    assert (code, err) == (0, "")
    added, following = out.splitlines()
    assert added.startswith(f"added to fleet, run lr3e-4: ranks 0, 1, 2 new steps, {many:,} rows, ")
    assert following == "next: gradscope ask fleet"

    code, out, err = said(capsys, "--run", "lr3e-4", *ranks)
    assert (code, err) == (0, "")
    assert out.splitlines() == ["nothing new for fleet", "next: gradscope ask fleet"]


def test_a_damaged_trace_is_named_and_the_others_are_added(
    ranks: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    whole = Path(ranks[0]).read_bytes()
    Path(ranks[0]).write_bytes(whole.replace(b'"table":"node"', b'"table":"nodf"', 1))

    code, out, err = said(capsys, "--run", "a", *ranks)

    assert code == ExitCode.UNREADABLE
    assert err.startswith("gradscope: error: cannot read 'trace.rank0.json': line ")
    assert err.endswith("; skipped, 1 of 2\n")
    assert "rank 1" in out
    assert {row["rank"] for row in rows(Path("fleet"), "node")} == {1}


def test_another_recording_is_named_and_the_others_are_added(
    ranks: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    said(capsys, "--run", "a", ranks[0])
    written(Path("other.json"), steps=3, rank=0, pid=99)

    code, out, err = said(capsys, "--run", "a", "other.json", ranks[1])

    assert code == ExitCode.MISUSED
    assert "'other.json' is another recording of rank 0" in err
    assert "rank 1" in out


def test_a_step_that_still_runs_is_mentioned(
    ranks: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    whole = Path(ranks[0]).read_bytes()
    lines = whole[: windows(whole)[-1]].splitlines(keepends=True)
    Path(ranks[0]).write_bytes(b"".join(lines[:-2]))

    _, out, _ = said(capsys, "--run", "a", ranks[0])

    assert "not added: the last step of rank 0, which had not ended" in out
    assert "--unfinished" in out


@pytest.mark.parametrize("name", ["../x", "a=b", ""])
def test_a_name_that_cannot_be_a_folder_changes_nothing(
    name: str, ranks: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = said(capsys, "--run", name, *ranks)

    assert (code, out) == (ExitCode.MISUSED, "")
    assert err.startswith("gradscope: error: --run ")
    assert not Path("fleet").exists()


def test_a_file_is_no_folder(ranks: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    Path("fleet").write_text("mine")

    code, _, err = said(capsys, "--run", "a", *ranks)

    assert (code, Path("fleet").read_text()) == (ExitCode.MISUSED, "mine")
    assert err == "gradscope: error: 'fleet' is not a folder; choose another one with --to\n"


@pytest.mark.skipif(os.name != "posix", reason="Windows has no such permissions")
@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_is_named(
    ranks: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    Path("fleet").mkdir(mode=0o500)

    code, _, err = said(capsys, "--run", "a", *ranks)

    assert (code, err.startswith("gradscope: error: cannot write in fleet: ")) == (2, True)


def test_a_full_disk_is_named_and_what_was_there_stays(
    ranks: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    said(capsys, "--run", "a", ranks[0])
    before = files(Path("fleet"))

    def full(file: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("gradscope.fleet.export.parquet.os.fsync", full)
        code, out, err = said(capsys, "--run", "a", ranks[1])

    assert (code, out) == (ExitCode.MISUSED, "")
    assert "cannot write in fleet: No space left on device" in err
    assert {name: files(Path("fleet"))[name] for name in before} == before
    assert said(capsys, "--run", "a", ranks[1])[0] == 0
    assert {row["rank"] for row in rows(Path("fleet"), "op")} == {0, 1}


def test_without_pyarrow_it_says_what_to_install(ranks: list[str], tmp_path: Path) -> None:
    (tmp_path / "pyarrow.py").write_text("raise ImportError('not here')")
    command = [sys.executable, "-m", "gradscope", "export", "--to", "fleet", "--run", "a", *ranks]
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])

    ran = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False
    )

    assert (ran.returncode, ran.stdout) == (ExitCode.MISUSED, "")
    assert ran.stderr == (
        "gradscope: error: a fleet needs pyarrow: "
        "pip install 'gradscope-trace[fleet]', or pip install 'pyarrow>=18'\n"
    )
    assert not Path("fleet").exists()
