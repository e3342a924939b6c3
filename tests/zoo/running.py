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


def told(folder: Path, name: str, text: str, *, on: str, level: str) -> Told:
    """Record a script, in a folder of its own, and look the trace over."""
    folder.mkdir(parents=True, exist_ok=True)
    script = folder / f"{name}.py"
    trace, said = script.with_suffix(".json"), script.with_suffix(".err")
    if not (trace.exists() and script.read_text(encoding="utf-8") == text):
        script.write_text(text, encoding="utf-8")
        asked = ["trace", "-q", "--on", on, "--level", level, "-o", trace.name, script.name]
        run(on, asked, folder, said)
        assert trace.exists(), f"{name} left no trace: {said.read_text(encoding='utf-8')}"
    loaded = load(trace)
    text, raised_lines = raised(said.read_text(encoding="utf-8"), script.name)
    return Told(int(loaded.meta["exit_code"]), inspect(loaded).findings, text, raised_lines)


def run(engine: str, arguments: list[str], folder: Path, said: Path) -> None:
    """Run gradscope to its end; what it writes goes into files."""
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
    next_number(ending)
    os.close(ending)


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
