"""The same trace in gives the same bytes out, whatever order sets have in a process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import gradscope
import gradscope.runtime as torch
from tests.scene.answers.a_training import PROGRAM

ASKED = (
    [], ["--json"], ["--grad-of", "head.bias"], ["--who-holds", "step 1"], ["--memory"],
    ["--hooks"], ["--order", "head.bias"], ["--why-none", "body.weight"],
    ["--node", "TanhBackward0#1"],
)  # fmt: skip
LINES = """\
import sys
from gradscope import cli
for arguments in eval(sys.argv[1]):
    try:
        cli.main(["inspect", "trace.json", *arguments])
    except SystemExit:
        pass
"""


def test_inspect_writes_the_same_bytes_in_every_process(tmp_path: Path) -> None:
    with gradscope.record(tmp_path / "trace.json", level="values"):
        exec(compile(PROGRAM, "train.py", "exec"), {"torch": torch, "__name__": "train"})

    first, second = (
        subprocess.run(
            [sys.executable, "-c", LINES, repr(ASKED)],
            cwd=tmp_path,
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
            capture_output=True,
            check=True,
            timeout=60,
        ).stdout
        for seed in (1, 2)
    )

    assert first.count(b"\n") > 200
    assert first == second
