"""The bar beside long work: who sees it, when, and what it leaves behind."""

from __future__ import annotations

import re
from io import StringIO
from pathlib import Path
from time import monotonic, sleep

import pytest

from gradscope.analysis.report import inspect
from gradscope.render.terminal.progress import progress
from gradscope.scene.viewer.scene import viewer_scene
from gradscope.trace.file.progress import tell, told_to
from gradscope.trace.load_save import load, save
from tests.shared.example_traces import two_layers


class Screen(StringIO):
    """A terminal that keeps what it was sent."""

    def isatty(self) -> bool:
        return True


def seen(screen: StringIO) -> str:
    """What stood there at some time, without what moves the cursor."""
    return re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", screen.getvalue())


def wait_for(screen: StringIO, text: str) -> None:
    end = monotonic() + 10
    while text not in seen(screen) and monotonic() < end:
        sleep(0.01)
    assert text in seen(screen)


def test_long_work_has_a_bar_that_goes_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    screen = Screen()

    with progress(screen, patience=0.0):
        tell("reading the trace", 1, 4)
        wait_for(screen, "reading the trace")
        tell("checking rules", 2, 4)
        wait_for(screen, "checking rules")

    assert screen.getvalue().endswith("\x1b[2K")  # the line is empty again


def test_short_work_has_none() -> None:
    screen = Screen()

    with progress(screen, patience=60.0):
        tell("reading the trace")

    assert screen.getvalue() == ""


def test_what_is_no_terminal_gets_nothing() -> None:
    file = StringIO()

    with progress(file, patience=0.0):
        tell("reading the trace")

    assert file.getvalue() == ""


def test_an_error_takes_the_bar_away_and_nobody_is_told_any_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    screen = Screen()

    with pytest.raises(ValueError, match="broken"), progress(screen, patience=0.0):
        tell("reading the trace")
        wait_for(screen, "reading the trace")
        raise ValueError("broken")

    before = screen.getvalue()
    tell("checking rules")
    assert screen.getvalue() == before


def test_reading_and_looking_over_tell_how_far_they_are(tmp_path: Path) -> None:
    save(two_layers(), tmp_path / "trace.json")
    told: list[tuple[str, int, int]] = []

    with told_to(lambda *each: told.append(each)):
        trace = load(tmp_path / "trace.json")
        inspect(trace)
        viewer_scene(trace)

    size = (tmp_path / "trace.json").stat().st_size
    assert ("reading the trace", size, size) in told
    rules = [each for each in told if each[0] == "checking rules"]
    assert [done for _, done, _ in rules[: rules[0][2]]] == list(range(rules[0][2]))
    assert told[-1][0] == "collecting the contents of the page"
