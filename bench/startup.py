"""How long the command line takes to start, and to draw and show a small trace.

Against importing what it cannot do without. Drawing includes loading the trace.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.measure import in_turn, report_ratio
from gradscope.trace.codec import save
from tests.example_traces import mean_of_squares

GRADSCOPE = str(Path(sys.executable).with_name("gradscope"))
IMPORTS = "import numpy, typer, rich"


def main() -> None:
    peer = process(sys.executable, "-c", IMPORTS)
    # To check a command's options Typer imports pydantic, which takes half as long as the rest.
    for options, limit in ((["--help"], 1.2), (["render", "--help"], 1.8)):
        comparison = in_turn(process(GRADSCOPE, *options), peer)
        report_ratio(f"gradscope {' '.join(options)}", IMPORTS, comparison, limit)
    with TemporaryDirectory() as directory:
        trace = str(Path(directory, "trace.json"))
        save(mean_of_squares(), trace)
        for command, limit in (("render -f dot", 3.5), ("timeline", 3.5), ("inspect", 3.5)):
            name, *options = command.split()
            comparison = in_turn(process(GRADSCOPE, name, trace, *options), peer)
            report_ratio(f"gradscope {command}", IMPORTS, comparison, limit)


def process(*command: str) -> Callable[[], object]:
    """Starting a program and waiting for its end."""
    return lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
