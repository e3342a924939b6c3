"""Ordinary scripts print the same on both engines, to the digits they choose to print."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.torch, pytest.mark.slow]

PROGRAMS = sorted((Path(__file__).parent / "programs").glob("*.py"))
OURS = """
import runpy, sys
from gradscope.record.from_runtime.script.aliases import torch_is_gradscope
with torch_is_gradscope():
    runpy.run_path(sys.argv[1], run_name="__main__")
"""
THEIRS = "import runpy, sys; runpy.run_path(sys.argv[1], run_name='__main__')"


def printed(code: str, program: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, str(program)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("program", PROGRAMS, ids=[p.stem for p in PROGRAMS])
def test_a_script_prints_what_it_prints_on_pytorch(program: Path) -> None:
    assert printed(OURS, program) == printed(THEIRS, program)
