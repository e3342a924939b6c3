"""Scripts recorded one by one, each in a fork of a process that has imported its engine."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from gradscope.analysis.findings import Finding, Severity
from gradscope.analysis.report import inspect
from gradscope.trace.load_save import load
from tests.shared.forked_starts import as_tests_start, next_number, server

FRAME = re.compile(r'^  File "(?P<file>[^"]+)", line (?P<line>\d+)', re.MULTILINE)
NAMED = re.compile(r"(?P<file>[\w.-]+\.py):(?P<line>\d+)")


@dataclass(frozen=True)
class Told:
    """What a person is told of a script: what `inspect` finds, and what it died of."""

    code: int
    findings: tuple[Finding, ...]
    raised: str = ""  # the text of the exception that ended it
    raised_lines: frozenset[int] = frozenset()  # of the script: where, and those its text names

    @property
    def serious(self) -> tuple[Finding, ...]:
        return tuple(each for each in self.findings if each.severity > Severity.NOTE)


def told(script: Path, *, on: str, level: str) -> Told:
    """Record a script, in its folder, and look the trace over."""
    folder, trace = script.parent, script.with_suffix(".json")
    trace.unlink(missing_ok=True)
    asked = ["trace", "-q", "--on", on, "--level", level, "-o", trace.name, script.name]
    said = script.with_suffix(".err")
    code = run(on, asked, folder, said)
    if not trace.exists():
        raise AssertionError(f"{script.name} left no trace: {said.read_text()}")
    text, raised_lines = raised(said.read_text(encoding="utf-8"), script.name)
    return Told(code, inspect(load(trace)).findings, text, raised_lines)


def run(engine: str, arguments: list[str], folder: Path, said: Path) -> int:
    """Run gradscope to its end; what it writes goes into files. Its exit status."""
    forking = server(f"all of {engine}")
    assert forking is not None, "the zoo needs fork"
    with (
        Path(os.devnull).open() as none,
        said.with_suffix(".out").open("w") as out,
        said.open("w") as err,
    ):
        streams = none.fileno(), out.fileno(), err.fileno()
        environment = as_tests_start(os.environ)
        _, ending = forking.fork(arguments, str(folder), environment, streams)
    status = next_number(ending)
    os.close(ending)
    return os.waitstatus_to_exitcode(status)


def raised(said: str, script: str) -> tuple[str, frozenset[int]]:
    """The text of the exception at the end of what was said, and the script's lines it names."""
    _, found, last = said.rpartition("Traceback (most recent call last):\n")
    if not found:
        return "", frozenset()
    frames = list(FRAME.finditer(last))
    own = [int(frame["line"]) for frame in frames if Path(frame["file"]).name == script]
    rest = last[frames[-1].end() :] if frames else last
    text = "\n".join(line for line in rest.splitlines()[1:] if not line.startswith("    "))
    return text.strip(), frozenset(own[-1:]) | lines_named(text, script)


def lines_named(text: str, script: str) -> frozenset[int]:
    """The lines of a script that a text names, as in `train.py:41`."""
    return frozenset(int(at["line"]) for at in NAMED.finditer(text) if at["file"] == script)
