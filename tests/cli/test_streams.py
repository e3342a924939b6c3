"""Commands whose standard streams are full or closed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gradscope.trace.load_save import save
from tests.shared.example_traces import mean_of_squares

needs_dev_full = pytest.mark.skipif(
    not Path("/dev/full").exists(), reason="this system has no /dev/full"
)


@pytest.fixture(autouse=True)
def trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    save(mean_of_squares(), "mean.json")


def shell(redirected: str) -> subprocess.CompletedProcess[str]:
    """A command of gradscope, with what the shell does to its streams."""
    return subprocess.run(
        ["/bin/sh", "-c", f'"{sys.executable}" -m gradscope {redirected}'],
        capture_output=True,
        text=True,
        check=False,
    )


@needs_dev_full
@pytest.mark.parametrize(
    "command", ["inspect mean.json", "timeline mean.json", "render -o - mean.json", "--help"]
)
def test_a_full_output_is_an_error_of_one_line(command: str) -> None:
    done = shell(f"{command} > /dev/full")

    assert (done.returncode, done.stderr) == (
        2,
        "gradscope: error: cannot write the output: No space left on device\n",
    )


@pytest.mark.parametrize(
    ("command", "code"),
    [("inspect mean.json", 0), ("render -o a.dot mean.json", 0), ("inspect nowhere.json", 3)],
)
def test_closed_streams_swallow_what_they_are_given(command: str, code: int) -> None:
    without_output = shell(f"{command} >&-")
    without_anything = shell(f"{command} >&- 2>&-")

    assert (without_output.returncode, without_output.stdout) == (code, "")
    assert without_output.stderr.count("\n") == (code != 0)
    assert without_anything.returncode == code


def test_a_script_that_is_traced_may_have_no_output() -> None:
    Path("script.py").write_text("import torch\nprint(torch.ones(2))\nraise SystemExit(4)\n")

    done = shell("trace --on gradscope script.py >&-")

    assert done.returncode == 4
    assert done.stderr.startswith("gradscope: trace.json: ")
