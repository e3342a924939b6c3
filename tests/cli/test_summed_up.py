"""The last lines of `gradscope trace`, from a process of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gradscope.commands.options import summed_up as view
from gradscope.render.terminal.cells import PLAIN, UNICODE
from gradscope.render.views.lines_at_end import Recorded
from gradscope.render.views.recorded import recorded
from gradscope.trace.load_save import save
from gradscope.trace.schema import Finding, Node
from tests.shared.by_hand import trace_of

RAISED = Finding(0, "exception", "ValueError: très long")
NOT_CHECKED = "not checked yet, since the process that checks it failed"

MEMORY = """
import sys
from pathlib import Path
from gradscope.commands.options import summed_up as view
view.SMALL = 0
said = view.summed_up(Path(sys.argv[1]), Path(sys.argv[1]), plain=True, width=80)
assert said.following, said
print(*sorted(name for name in sys.modules if name.startswith("gradscope.analysis")))
"""


@pytest.fixture
def trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A trace with an exception, whose name is not UTF-8, and which does not count as small."""
    monkeypatch.setattr(view, "SMALL", 0)
    path = tmp_path / os.fsdecode(b"t \xff.json")
    save(trace_of(Node(0, "ExpBackward0"), RAISED, meta={"level": "engine"}), path)
    return path


def said_of(trace: Path, *, plain: bool = False) -> Recorded:
    return view.summed_up(trace, Path(trace.name), plain=plain, width=90)


@pytest.mark.parametrize("plain", [False, True])
def test_another_process_says_the_same(
    trace: Path, monkeypatch: pytest.MonkeyPatch, *, plain: bool
) -> None:
    started: list[object] = []
    run = subprocess.run

    def noted(*arguments: object, **options: object) -> object:
        started.append(arguments)
        return run(*arguments, **options)  # type: ignore[call-overload]

    monkeypatch.setattr(subprocess, "run", noted)

    said = said_of(trace, plain=plain)

    assert len(started) == 1
    assert said == recorded(trace, Path(trace.name), PLAIN if plain else UNICODE, 90)
    assert said.summary[1].startswith("GS301 ")


def test_a_small_trace_is_checked_at_once(trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view, "SMALL", trace.stat().st_size)
    monkeypatch.setattr(sys, "executable", "/bin/false")

    assert said_of(trace) == recorded(trace, Path(trace.name), UNICODE, 90)


def test_without_another_process_the_trace_is_checked_here(
    trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(trace.parent / "python"))

    assert said_of(trace) == recorded(trace, Path(trace.name), UNICODE, 90)


def test_of_a_process_that_fails_it_is_said_that_nothing_was_checked(
    trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")

    said = said_of(trace)

    assert [NOT_CHECKED in line for line in said.summary] == [True]
    assert said.following.startswith("next: gradscope inspect ")


def test_the_process_of_the_program_loads_no_rules(trace: Path) -> None:
    command = [sys.executable, "-c", MEMORY, os.fspath(trace)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)

    assert done.stdout.split() == []
