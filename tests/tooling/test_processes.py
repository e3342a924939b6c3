"""Processes that tests start hear the signals that any program hears, and end with their test."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.shared.processes import ended_with_the_test

HOUSE = Path(__file__).parents[2]
IGNORED = """
import signal, subprocess, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
signal.signal(signal.SIGHUP, signal.SIG_IGN)
{line}
look = "from signal import *; print(*(getsignal(s) is SIG_IGN for s in (SIGINT, SIGHUP)))"
subprocess.run([sys.executable, "-c", look], check=True)
"""
HEARING = "from tests.shared.processes import hear_signals; hear_signals()"


@pytest.mark.parametrize(("line", "told"), [("", "True True\n"), (HEARING, "False False\n")])
def test_children_hear_what_is_ignored_in_the_background(line: str, told: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", IGNORED.format(line=line)],
        cwd=HOUSE,
        capture_output=True,
        text=True,
        check=True,
    )

    assert ran.stdout == told


def test_the_tests_themselves_outlive_their_terminal() -> None:
    line = f"{HEARING}\nimport os; os.kill(os.getpid(), signal.SIGHUP)"
    ran = subprocess.run(
        [sys.executable, "-c", IGNORED.format(line=line)], cwd=HOUSE, check=False, timeout=60
    )

    assert ran.returncode == 0


SPAWNS = """
import subprocess, sys, time
left = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print(left.pid, flush=True)
time.sleep(600)
"""


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="reads Linux's own account")
def test_what_a_test_leaves_behind_is_killed_with_what_that_left_behind() -> None:
    with pytest.raises(ZeroDivisionError), ended_with_the_test():
        process = subprocess.Popen([sys.executable, "-c", SPAWNS], stdout=subprocess.PIPE)
        assert process.stdout is not None
        left = int(process.stdout.readline())
        assert is_alive(left)
        raise ZeroDivisionError

    assert process.returncode is not None
    deadline = time.monotonic() + 30
    while is_alive(left) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not is_alive(left)


def is_alive(pid: int) -> bool:
    """Whether it runs; one that ended, and that nobody asked for yet, does not."""
    try:
        os.kill(pid, 0)
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except (ProcessLookupError, FileNotFoundError):
        return False
