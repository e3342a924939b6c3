"""Ordinary scripts print the same on both engines, to the digits they choose to print."""

from __future__ import annotations

import json
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
THEIRS = """
import contextlib, io, json, runpy, sys
printed = {}
for program in sys.argv[1:]:
    with contextlib.redirect_stdout(io.StringIO()) as out:
        runpy.run_path(program, run_name="__main__")
    printed[program] = out.getvalue()
print(json.dumps(printed))
"""
"""All of them in one process: of six seconds of each, PyTorch's imports take five."""


def printed(code: str, *programs: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, *map(str, programs)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def on_pytorch() -> dict[str, str]:
    """What each program prints on PyTorch."""
    found: dict[str, str] = json.loads(printed(THEIRS, *PROGRAMS))
    return found


@pytest.mark.parametrize("program", PROGRAMS, ids=[p.stem for p in PROGRAMS])
def test_a_script_prints_what_it_prints_on_pytorch(
    program: Path, on_pytorch: dict[str, str]
) -> None:
    assert printed(OURS, program) == on_pytorch[str(program)]
