"""What the pieces of a script cost against the limits of this machine: `roofline SCRIPT [ARGS]`."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

SAMPLE = Path(__file__).parents[1] / "samples" / "mlp.py"
GRADSCOPE = (sys.executable, "-c", "import gradscope.cli as cli; cli.main()")


def of_script(script: Sequence[str]) -> int:
    """Record a script on gradscope's own engine, and say what its pieces cost."""
    with tempfile.TemporaryDirectory() as folder:
        trace = str(Path(folder, "trace.json"))
        recorded = subprocess.run(
            [*GRADSCOPE, "trace", "-q", "--on", "gradscope", "-o", trace, *script], check=False
        )
        if not Path(trace).exists():
            return recorded.returncode
        shown = subprocess.run([*GRADSCOPE, "inspect", trace, "--roofline"], check=False)
    return shown.returncode


def main() -> None:
    """Of a sample, where no script is named."""
    of_script([str(SAMPLE)])
