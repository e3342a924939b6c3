"""How long the command line takes to start, and to draw and show a small trace.

Against importing what it cannot do without. Drawing includes loading the trace. Both run as they
are once installed, with their bytecode compiled: the rounds that do not count see to that. And how
long a script waits that imports the engine.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.measure import in_turn, report_ratio

GRADSCOPE = str(Path(sys.executable).with_name("gradscope"))
SAMPLE = Path(__file__).parent.parent / "samples" / "first_graph.py"
IMPORTS = "import numpy, typer, rich"
ENVIRONMENT = {key: os.environ[key] for key in os.environ if key != "PYTHONDONTWRITEBYTECODE"}


def main() -> None:
    engine = process(sys.executable, "-c", "import gradscope.runtime")
    numpy = in_turn(engine, process(sys.executable, "-c", "import numpy"))
    report_ratio("import gradscope.runtime", "import numpy", numpy, 3.5)
    with TemporaryDirectory() as directory:
        trace = str(Path(directory, "trace.json"))
        process(GRADSCOPE, "trace", "-q", "--on", "gradscope", "-o", trace, str(SAMPLE))()
        compare(["--help"])
        compare(["render", "--help"])
        compare(["render", trace, "-f", "dot"], limit=1.3)
        for command in ("inspect", "timeline", "check", "info"):
            compare([command, trace], limit=1.5)


def compare(arguments: list[str], limit: float = 1.1) -> None:
    peer = process(sys.executable, "-c", IMPORTS)
    comparison = in_turn(process(GRADSCOPE, *arguments), peer)
    shown = " ".join(Path(argument).name for argument in arguments)
    report_ratio(f"gradscope {shown}", IMPORTS, comparison, limit)


def process(*command: str) -> Callable[[], object]:
    """Starting a program and waiting for its end."""
    return lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=ENVIRONMENT)
