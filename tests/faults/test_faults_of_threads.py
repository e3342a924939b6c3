"""Faults planted in the engine's threads, each in a process of its own: a fault may well hang."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.faults.threads import HANGS, THREADS

HOUSE = Path(__file__).parents[2]
HUNG = 10.0
"""Seconds after which a process that takes one is said to hang."""


def noticed(name: str, *, limit: float | None = None) -> str:
    try:
        ran = subprocess.run(
            [sys.executable, "-m", "tests.faults.on_devices", name],
            cwd=HOUSE,
            capture_output=True,
            text=True,
            check=False,
            timeout=limit,
        )
    except subprocess.TimeoutExpired:
        return "it hangs"
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_nothing_is_noticed_where_nothing_is_wrong() -> None:
    assert noticed("nothing") == ""


@pytest.mark.parametrize("name", sorted(THREADS.keys() - HANGS))
def test_a_fault_of_the_threads_is_caught(name: str) -> None:
    assert noticed(name), f"nobody noticed {name}"


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(HANGS))
def test_a_fault_that_hangs_is_caught(name: str) -> None:
    assert noticed(name, limit=HUNG) == "it hangs"
