"""tools/venv.sh says in plain words what a machine lacks."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

HOUSE = Path(__file__).parents[2]


def venv(where: Path, python: Path, *extras: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", HOUSE / "tools" / "venv.sh", *extras],
        env={"PATH": os.environ["PATH"], "VENV": str(where), "PYTHON": str(python)},
        capture_output=True,
        text=True,
        check=False,
    )


def fake_python(folder: Path, script: str) -> Path:
    python = folder / "python 3"
    python.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    python.chmod(0o755)
    return python


def test_a_python_that_is_too_old_is_named_with_what_is_needed(tmp_path: Path) -> None:
    old = fake_python(
        tmp_path, 'if [ "$1" = --version ]; then echo "Python 3.9.2"; else exit 1; fi'
    )

    outcome = venv(tmp_path / "venv", old)

    assert outcome.returncode == 1
    assert outcome.stderr == (
        f"gradscope needs Python 3.11 to 3.14; {old} is Python 3.9.2. "
        "Install one, or name it: make test PYTHON=/path/to/python3.14\n"
    )
    assert not (tmp_path / "venv").exists()


def test_a_python_without_venv_is_told_what_to_install(tmp_path: Path) -> None:
    bare = fake_python(tmp_path, 'case "$2" in "import sys;"*) exit 0;; *) exit 1;; esac')

    outcome = venv(tmp_path / "venv", bare)

    assert outcome.returncode == 1
    assert outcome.stderr == (
        f"{bare} lacks what makes a virtual environment ('venv' with 'ensurepip' or 'pip'). "
        "On Debian and Ubuntu: apt install python3-venv. Then run this again.\n"
    )


def test_a_folder_that_is_no_environment_is_left_alone(tmp_path: Path) -> None:
    mine = tmp_path / "venv" / "mine.txt"
    mine.parent.mkdir()
    mine.write_text("mine", encoding="utf-8")

    outcome = venv(mine.parent, tmp_path / "no-python")

    assert outcome.returncode == 1
    assert outcome.stderr == (
        f"{mine.parent} is there, but it is no virtual environment. "
        "Choose another place: make test VENV=.venv-gradscope\n"
    )
    assert mine.read_text(encoding="utf-8") == "mine"
