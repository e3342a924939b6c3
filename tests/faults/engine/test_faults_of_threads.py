"""Faults planted in the engine's threads, each in a process of its own: a fault may well hang."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.faults.faults.threads import HANGS, THREADS

HOUSE = Path(__file__).parents[3]
HUNG = 5.0
"""Seconds after which a process that takes a fraction of one is said to hang."""
PATIENT = 300.0


def noticed(names: Iterable[str], *, limit: float = PATIENT) -> Any:
    ran = subprocess.run(
        [sys.executable, "-m", "tests.faults.on_devices", str(limit), *names],
        cwd=HOUSE,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def test_every_fault_of_the_threads_is_caught_and_nothing_where_nothing_is_wrong() -> None:
    faults = sorted(THREADS.keys() - HANGS)

    found = noticed(["nothing", *faults])

    assert found.pop("nothing") == ""
    assert len(found) == len(faults) > 10
    assert {name: text for name, text in found.items() if text in {"", "it died", "it hangs"}} == {}


def test_faults_that_hang_are_caught() -> None:
    assert noticed(sorted(HANGS), limit=HUNG) == dict.fromkeys(HANGS, "it hangs")
