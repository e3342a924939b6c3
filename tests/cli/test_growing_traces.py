"""Commands on traces that are still being written."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gradscope.analysis.report import inspect
from gradscope.analysis.timing.by_step import step_facts
from gradscope.trace.load_save import load

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no locks of files")

PROGRAM = """
import time, torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x = torch.randn(8, 4)
y = x.sum(1, keepdim=True)
for step in range(8):
    optimizer.zero_grad()
    (model(x) - y).square().mean().backward()
    optimizer.step()
    time.sleep(0.6)
"""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trace of several windows."""
    folder = tmp_path_factory.mktemp("growing")
    (folder / "train.py").write_text(PROGRAM)
    command = ("-m", "gradscope", "trace", "--on", "gradscope", "-o", "trace.json", "train.py")
    subprocess.run([sys.executable, *command], cwd=folder, check=True, capture_output=True)
    return folder / "trace.json"


@contextmanager
def written_by_somebody(path: Path) -> Iterator[None]:
    """The file is locked, as by a process that writes it."""
    import fcntl

    with path.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def after_each_window(whole: Path) -> list[bytes]:
    lines = whole.read_bytes().splitlines(keepends=True)
    ends = [place for place, line in enumerate(lines, 1) if line.startswith(b'{"window"')]
    return [b"".join(lines[:end]) for end in ends]


def test_findings_are_those_of_the_whole_trace(whole: Path, tmp_path: Path) -> None:
    assert inspect(whole).findings == ()
    path, seen = tmp_path / "growing.json", 0
    steps = {step.number: step for step in step_facts(load(whole))}
    for text in after_each_window(whole):
        path.write_bytes(text)
        with written_by_somebody(path):
            trace = load(path)
        assert trace.notes[0].startswith("still being recorded: this is what was written until 0.")
        assert inspect(trace).findings == ()
        ended = [step for step in step_facts(trace) if step.ns >= 0]
        assert ended == [steps[step.number] for step in ended]
        seen = max(seen, len(ended))
    assert seen >= 6


def test_the_report_says_that_the_program_runs(whole: Path, tmp_path: Path) -> None:
    path = tmp_path / "growing.json"
    path.write_bytes(after_each_window(whole)[-1])
    command = [sys.executable, "-m", "gradscope", "inspect", str(path)]
    with written_by_somebody(path):
        shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "still being recorded: this is what was written until " in shown
    assert "GS101" not in shown

    killed = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    assert "still being recorded" not in killed
    assert "GS101 The trace is incomplete: truncated" in killed
