"""`gradscope watch` on programs that run meanwhile."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

PROGRAM = """
import sys
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
while True:
    optimizer.zero_grad()
    model(torch.ones(8, 4)).square().mean().backward()
    optimizer.step()
    if select_ready():
        break
"""
UNTIL_A_LINE = """
import select
def select_ready():
    return bool(select.select([sys.stdin], [], [], 0.005)[0])
"""


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "gradscope", *arguments]


@pytest.fixture
def program(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A program that trains until it receives a line, and is recorded."""
    script = tmp_path / "train.py"
    script.write_text(PROGRAM.replace("import sys\n", f"import sys\n{UNTIL_A_LINE}", 1))
    recorded = subprocess.Popen(
        command("trace", "--on", "gradscope", "-o", "trace.json", "train.py"),
        cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    path = tmp_path / "trace.json"
    while recorded.poll() is None and (not path.exists() or b'"step"' not in path.read_bytes()):
        time.sleep(0.05)
    yield recorded
    if recorded.poll() is None:
        recorded.communicate(b"end\n")


def ends(program: subprocess.Popen[bytes]) -> None:
    output, _ = program.communicate(b"end\n")
    assert program.returncode == 0, output.decode()


def test_lines_follow_a_program_until_it_ends(
    program: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    watching = subprocess.Popen(
        command("watch", "--every", "0.2", "trace.json"), cwd=tmp_path, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert watching.stdout is not None
    lines = [watching.stdout.readline()]
    while len({step for line in lines for step in re.findall(r": step ([\d,]+),", line)}) < 3:
        lines.append(watching.stdout.readline())
        assert lines[-1], watching.communicate()
    ends(program)
    rest, errors = watching.communicate()

    assert watching.returncode == 0, errors
    numbers = [
        int(each.replace(",", "")) for each in re.findall(r": step ([\d,]+),", "".join(lines))
    ]
    assert numbers == sorted(numbers)
    last = (*lines, *rest.splitlines())[-1]
    assert re.search(r"trace\.json: step [\d,]+, [\d.e+]+ steps/s, .*forward .*backward", last)
    assert last.rstrip().endswith(", ended")


def test_once_looks_once(program: subprocess.Popen[bytes], tmp_path: Path) -> None:
    shown = subprocess.run(
        command("watch", "--once", "trace.json"), cwd=tmp_path, capture_output=True, text=True,
        check=True,
    ).stdout  # fmt: skip
    assert "running; last written" in shown
    assert "of at most 256 MiB" in shown or "of at most 244 MiB" in shown
    ends(program)
    shown = subprocess.run(
        command("watch", "--once", "trace.json"), cwd=tmp_path, capture_output=True, text=True,
        check=True,
    ).stdout  # fmt: skip
    assert "ended" in shown
    assert re.search(r"steps +[\d,]+ steps recorded", shown)


@pytest.mark.skipif(sys.platform == "win32", reason="no pseudo-terminals")
def test_a_terminal_shows_one_screen_that_changes(
    program: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    import pty

    ours, theirs = pty.openpty()
    watching = subprocess.Popen(
        command("watch", "--every", "0.2", "trace.json"), cwd=tmp_path, stdin=theirs, stdout=theirs,
        stderr=theirs, env={**os.environ, "TERM": "xterm", "COLUMNS": "100"},
    )  # fmt: skip
    os.close(theirs)
    screen = b""
    while screen.count(b"running; last written") < 4:
        screen += os.read(ours, 1 << 16)
    ends(program)
    while more := _read(ours):
        screen += more
    os.close(ours)

    assert watching.wait() == 0
    assert b"\x1b[" in screen  # it moved up and wrote over its lines
    assert re.search(rb"steps/s.*forward .*backward .*trace\.json.* ended", screen, re.DOTALL)


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 1 << 16)
    except OSError:  # the program has closed it
        return b""


@pytest.mark.skipif(sys.platform == "win32", reason="no such signals")
def test_ctrl_c_ends_it_and_not_the_program(
    program: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    watching = subprocess.Popen(
        command("watch", "--every", "0.2", "trace.json"), cwd=tmp_path, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )  # fmt: skip
    assert watching.stdout is not None
    assert watching.stdout.readline()
    watching.send_signal(signal.SIGINT)
    _, errors = watching.communicate()

    assert watching.returncode in {-signal.SIGINT, 130}
    assert errors == b""
    assert program.poll() is None
    ends(program)


@pytest.mark.skipif(sys.platform == "win32", reason="no locks of files, which tell it")
def test_a_program_that_was_killed_has_stopped(
    program: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    watching = subprocess.Popen(
        command("watch", "--every", "0.2", "trace.json"), cwd=tmp_path, stdout=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    program.kill()
    program.wait()
    output, _ = watching.communicate()

    assert watching.returncode == 0
    assert output.rstrip().endswith("stopped without closing the file")


def test_a_time_that_is_too_short_is_refused(tmp_path: Path) -> None:
    for every in ("0", "nan", "-1"):
        refused = subprocess.run(
            command("watch", f"--every={every}", "trace.json"), cwd=tmp_path, capture_output=True,
            text=True, check=False,
        )  # fmt: skip
        assert refused.returncode == 2
        assert "--every takes seconds, 0.1 or more" in refused.stderr
