"""How long the command line takes to start, against importing what it cannot do without."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from bench.measure import in_turn, report_ratio

GRADSCOPE = str(Path(sys.executable).with_name("gradscope"))


def main() -> None:
    comparison = in_turn(
        process(GRADSCOPE, "--help"),
        process(sys.executable, "-c", "import numpy, typer, rich"),
    )
    report_ratio("gradscope --help", "import numpy, typer, rich", comparison, limit=1.2)


def process(*command: str) -> Callable[[], object]:
    """Starting a program and waiting for its end."""
    return lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
