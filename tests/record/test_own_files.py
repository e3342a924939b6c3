"""The text of the program's own files is in the trace, unless the user does not want it."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from gradscope.analysis.report import inspect
from gradscope.record.notes.sites import LINES
from gradscope.record.recorder import record
from gradscope.trace.load_save import load
from gradscope.trace.schema import Frame, Source
from gradscope.trace.trace import Trace

SCRIPT = """\
import gradscope.runtime as torch
model = torch.nn.Linear(2, 1)
model.eval
model(torch.ones(3, 2)).sum().backward()
"""


def recorded(script: Path, *, level: str = "engine", source: bool = True) -> Trace:
    with record(level=level, source=source) as recording:
        runpy.run_path(str(script), run_name="__main__")
    return recording.trace()


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "script.py"
    path.write_text(SCRIPT, encoding="utf-8")
    return path


def texts(trace: Trace) -> dict[str, str]:
    return {Path(row.file).name: row.text for row in trace.rows(Source)}


def test_a_file_of_which_something_ran_is_there_by_the_name_its_lines_have(script: Path) -> None:
    trace = recorded(script)

    assert texts(trace)["script.py"] == SCRIPT
    assert {row.file for row in trace.rows(Source)} <= {row.file for row in trace.rows(Frame)}
    assert any(found.rule == "GS707" for found in inspect(trace).findings)


def test_no_file_is_there_that_is_long_or_was_not_asked_for(script: Path) -> None:
    assert texts(recorded(script, level="graph")) == {}
    long = script.with_name("long.py")
    long.write_text(SCRIPT + "\n" * LINES, encoding="utf-8")
    assert "long.py" not in texts(recorded(long))


def test_what_was_left_out_is_said_and_what_reads_it_is_not_checked(script: Path) -> None:
    trace = recorded(script, source=False)
    report = inspect(trace)

    assert texts(trace) == {}
    assert trace.meta["left_out"] == ["source"]
    assert "GS707" not in report.checked
    [no_effect] = [each for each in report.unchecked if each.rule == "GS707"]
    assert no_effect.reason.endswith("(redacted, cut off, or recorded with --no-source)")


def test_without_the_end_of_the_run_what_reads_files_is_not_checked(script: Path) -> None:
    """The text is written last, and a program that leaves at once has no end."""
    script.write_text(SCRIPT + "import os\nos._exit(0)\n", encoding="utf-8")
    command = [sys.executable, "-m", "gradscope", "trace", "-q", "--on", "gradscope", script.name]
    subprocess.run(command, cwd=script.parent, check=True, timeout=120)
    report = inspect(load(script.with_name("trace.json")))

    assert "GS707" not in report.checked
    assert "GS707" in {each.rule for each in report.unchecked}
