"""Runs of a program in processes of their own, recorded, with something held equal or nothing."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gradscope.commands.debugging.laws.child import NOTHING
from gradscope.commands.debugging.laws.held import Held
from gradscope.errors import RecordingError

TAIL = 12
"""Number of last lines of a failed run that are shown."""


@dataclass(frozen=True)
class Program:
    """A program, and how it is recorded."""

    script: tuple[str, ...]  # with its arguments
    module: bool
    on: str
    folder: Path  # in which its traces are written


@dataclass(frozen=True)
class Run:
    """A recorded run."""

    trace: Path
    code: int
    noted: tuple[tuple[str, str], ...]  # calls of what was held, and their lines
    output: str  # what it printed


def run(program: Program, name: str, held: Held | None = None) -> Run:
    """Run a program in a new process, and record it. Its output is kept, not shown."""
    trace, notes = program.folder / f"{name}.json", program.folder / f"{name}.notes"
    for each in (trace, notes):
        each.unlink(missing_ok=True)
    command = [
        sys.executable, "-c", START, NOTHING if held is None else held.name, str(notes),
        "--quiet", "--level", "values", "--on", program.on, "-o", str(trace),
        *(["-m"] if program.module else []), *program.script,
    ]  # fmt: skip
    with (program.folder / f"{name}.out").open("wb+") as out:
        ended = subprocess.run(  # noqa: S603  the user's own program
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            env={**os.environ, **dict(held.variables if held else ())},
            preexec_fn=None if held is None else held.prepare,
            check=False,
        )
        out.seek(0)
        output = out.read().decode(errors="replace")
    if not trace.exists():
        last = "\n".join(output.splitlines()[-TAIL:])
        raise RecordingError(
            f"the program ended with {ended.returncode} before it was recorded: {last}"
        )
    return Run(trace, ended.returncode, tuple(_read(notes)), output)


START = "import sys; from gradscope.commands.debugging.laws.child import main; main(sys.argv[1:])"


def twice(
    program: Program, say: Callable[[str], None], held: Held | None = None
) -> tuple[Run, Run]:
    """Two runs of a program, one after the other."""
    found = []
    for number in ("first", "second"):
        name = number if held is None else f"{number}-{held.name}"
        say(f"{number} run" + (f", with {held.name} held equal" if held else ""))
        found.append(run(program, name, held))
    return found[0], found[1]


def _read(notes: Path) -> list[tuple[str, str]]:
    if not notes.is_file():
        return []
    return [(what, place) for what, place in map(json.loads, notes.read_text().splitlines())]
