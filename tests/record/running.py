"""Scripts run in processes of their own: under `gradscope trace`, and as Python runs them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from gradscope.trace.load_save import load
from gradscope.trace.spec import Violation, check
from gradscope.trace.trace import Trace
from tests.shared.forked_starts import GRADSCOPE, as_tests_start, start

LONG = 60

_BESIDE = Path(sys.executable).with_name("mpiexec")
MPIEXEC = str(_BESIDE) if _BESIDE.exists() else shutil.which("mpiexec")

needs_mpi = pytest.mark.skipif(
    find_spec("mpi4py") is None or MPIEXEC is None,
    reason="mpi4py and mpiexec are not installed: pip install 'gradscope-trace[mpi]'",
)


@dataclass(frozen=True)
class Ran:
    """What a process left behind."""

    code: int
    out: str
    err: str


class House:
    """A folder with a script in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, text: str | bytes, name: str = "script.py") -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    def start(self, *command: str, env: dict[str, str] | None = None) -> subprocess.Popen[str]:
        """A process in the folder, with pipes; `gradscope trace` is on gradscope's own engine."""
        if command[:2] == (GRADSCOPE, "trace") and "--on" not in command:
            command = (*command[:2], "--on", "gradscope", *command[2:])
        environment = {**as_tests_start(os.environ), **(env or {})}
        return start(command, self.folder, environment)

    def run(
        self,
        *command: str,
        input: str = "",
        env: dict[str, str] | None = None,
        patience: float = LONG,
    ) -> Ran:
        process = self.start(*command, env=env)
        out, err = process.communicate(input, timeout=patience)
        return Ran(process.returncode, out, err)

    def run_as_ranks(
        self, size: int, *command: str, patience: float = LONG, **env: str
    ) -> list[Ran]:
        """Run a command in several processes at the same time, which are ranks of one program.

        Those that run for longer than `patience` seconds are terminated.
        """
        ranks = [
            self.start(*command, env={"RANK": str(rank), "WORLD_SIZE": str(size), **env})
            for rank in range(size)
        ]
        texts = [_output(process, patience) for process in ranks]
        return [Ran(rank.returncode, *text) for rank, text in zip(ranks, texts, strict=True)]

    def run_by_mpi(self, size: int, *arguments: str) -> Ran:
        """`gradscope trace` on gradscope's own engine, as several ranks that mpiexec starts."""
        assert MPIEXEC is not None
        command = (sys.executable, "-m", "gradscope", "trace", "-q", "--on", "gradscope")
        return self.run(MPIEXEC, "-n", str(size), *command, *arguments)

    def python(self, *arguments: str, **options: Any) -> Ran:
        return self.run(sys.executable, *arguments, **options)

    def gradscope(self, *arguments: str, **options: Any) -> Ran:
        return self.run(GRADSCOPE, *arguments, **options)

    def trace(self, *arguments: str, **options: Any) -> Ran:
        """`gradscope trace`, with nothing said but by the script."""
        return self.gradscope("trace", "-q", *arguments, **options)

    def recorded(self, name: str = "trace.json") -> Trace:
        return load(self.folder / name)

    def violations(self, name: str = "trace.json") -> list[Violation]:
        return check(self.recorded(name))


def _output(process: subprocess.Popen[str], patience: float) -> tuple[str, str]:
    """What a process writes until it ends, or is terminated."""
    with suppress(subprocess.TimeoutExpired):
        return process.communicate(timeout=patience)
    process.terminate()
    return process.communicate(timeout=LONG)
