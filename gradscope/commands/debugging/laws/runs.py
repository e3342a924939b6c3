"""Runs of a program in processes of their own, recorded, with something held equal or nothing."""

import json
import os
import secrets
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from gradscope.commands.debugging.laws.held import NOTHING, Held
from gradscope.commands.options.output import safe
from gradscope.errors import RecordingError, UsageError
from gradscope.scene.answers.answer import Answer

TAIL = 12
"""Number of last lines of a failed run that are shown."""


@dataclass(frozen=True)
class Program:
    """A program, and how it is recorded."""

    script: tuple[str, ...]  # with its arguments
    module: bool
    on: str
    folder: Path  # in which its traces are written
    hashes: tuple[str, str] = field(default_factory=lambda: (_drawn(), _drawn()))
    """PYTHONHASHSEED of the runs, unless the user set it: drawn, as Python draws it."""


def _drawn() -> str:
    return str(secrets.randbelow(1 << 32))


HASHES = "PYTHONHASHSEED"


@dataclass(frozen=True)
class Run:
    """A recorded run."""

    trace: Path
    code: int
    noted: tuple[tuple[str, str], ...]  # calls of what was held, and their lines
    output: str  # what it printed


class RunEnd(NamedTuple):
    """The end of a process: its exit code, and what it printed."""

    code: int
    output: str

    @property
    def end(self) -> str:
        """The last lines that it printed."""
        return "\n".join(self.output.splitlines()[-TAIL:])


@dataclass(frozen=True)
class LawArguments:
    """What the command line says about a law: which further runs, and arguments of the script."""

    cause: bool = True
    whole: str | None = None
    parts: str | None = None
    save: str | None = None
    resume: str | None = None

    def required(self, *names: str) -> list[str]:
        """The arguments of these runs; an error if one is missing."""
        given = {name: getattr(self, name) for name in names}
        for name, each in given.items():
            if each is None:
                raise UsageError(
                    f"--{name} is missing: further arguments of the script for this run, which may "
                    "be ''"
                )
        return list(given.values())


class LawVerdict(NamedTuple):
    """The answer about a law, and whether it is broken."""

    answer: Answer
    broken: bool


def say(text: str) -> None:
    """Say on stderr what runs now."""
    sys.stderr.write(f"gradscope: {safe(text)}\n")
    sys.stderr.flush()


def run_with(program: Program, number: int, arguments: str, held: Held | None = None) -> Run:
    """Run a program with further arguments, as one writes them in a shell; it must end with 0."""
    say(f"run with {arguments or 'no further arguments'}")
    script = *program.script, *shlex.split(arguments)
    ran = run(replace(program, script=script), number, held)
    if ran.code:
        raise RecordingError(
            f"the program ended with {ran.code}: {RunEnd(ran.code, ran.output).end}"
        )
    return ran


def run(program: Program, number: int, held: Held | None = None) -> Run:
    """Run a program in a new process, and record it. Its output is kept, not shown.

    In runs with the same number Python hashes strings in the same way, unless that is what is held:
    so a difference that follows from hashes is in each pair of runs, or in none.
    """
    name = f"run{number}" if held is None else f"run{number}-{held.name}"
    trace, notes = program.folder / f"{name}.json", program.folder / f"{name}.notes"
    for each in (trace, notes):
        each.unlink(missing_ok=True)
    given = (
        NOTHING if held is None else held.name, str(notes),
        "--quiet", "--level", "values", "--on", program.on, "-o", str(trace),
        *(["-m"] if program.module else []), *program.script,
    )  # fmt: skip
    variables = {HASHES: program.hashes[number % 2], **os.environ}
    variables |= dict(held.variables if held else ())
    ended = started(program, name, START, given, variables, None if held is None else held.prepare)
    if not trace.exists():
        raise RecordingError(
            f"the program ended with {ended.code} before it was recorded: {ended.end}"
        )
    return Run(trace, ended.code, tuple(_read(notes)), ended.output)


def started(
    program: Program,
    name: str,
    start: str,
    given: Sequence[str],
    variables: Mapping[str, str],
    prepare: Callable[[], None] | None = None,
) -> RunEnd:
    """Run Python code in a new process that runs the program, and wait for its end."""
    with (program.folder / f"{name}.out").open("wb+") as out:
        ended = subprocess.run(  # noqa: S603  the user's own program
            [sys.executable, "-c", start, *given],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            env={**os.environ, **variables},
            preexec_fn=prepare,
            check=False,
        )
        out.seek(0)
        return RunEnd(ended.returncode, out.read().decode(errors="replace"))


START = """
import sys
from gradscope import cli
from gradscope.commands.debugging.laws.held import prepared
cli.main(prepared(sys.argv[1:]))
"""


def _read(notes: Path) -> list[tuple[str, str]]:
    if not notes.is_file():
        return []
    return [(what, place) for what, place in map(json.loads, notes.read_text().splitlines())]
