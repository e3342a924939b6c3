"""`gradscope debug` from the command line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parents[2]
NAN = "docs/gallery/nan_in_backward.json"


def gradscope(*words: str, given: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "gradscope", "debug", "--width", "96", *words],
        cwd=HERE, input=given, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_commands_come_from_a_pipe_too() -> None:
    done = gradscope("--at", "nan", NAN, given="previous\nquit\nstate\n")

    assert done.returncode == 0
    assert done.stdout.count("moment ") == 1
    assert "SqrtBackward0 begins" in done.stdout


def test_that_a_trace_was_cut_off_is_said_once(tmp_path: Path) -> None:
    cut = tmp_path / "cut.json"
    whole = (HERE / NAN).read_bytes()
    cut.write_bytes(whole[: len(whole) * 3 // 4])

    assert gradscope(str(cut), "-x", "step", "-x", "step").stderr.count("truncated: ") == 1


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--at", "nowhere", NAN], "nowhere"),
        (["no.json"], "no.json"),
    ],
)
def test_where_it_cannot_begin_is_an_error(words: list[str], complaint: str) -> None:
    done = gradscope(*words)

    assert done.returncode in (2, 3)
    assert done.stderr.startswith("gradscope: error: ")
    assert complaint in done.stderr
    assert "Traceback" not in done.stderr
