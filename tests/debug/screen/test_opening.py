"""Where the program is shown, and where lines of text serve instead."""

from __future__ import annotations

import os
import select
import sys
import time
from io import BytesIO, StringIO, TextIOWrapper
from pathlib import Path

import pytest

from gradscope.cli import main
from gradscope.debug.screen import opening
from gradscope.debug.walk import Walk

NAN = str(Path(__file__).parents[3] / "docs/gallery/nan_in_backward.json")


class Terminal(TextIOWrapper):
    """Says that it is one."""

    def isatty(self) -> bool:
        return True


def terminal(encoding: str = "utf-8") -> Terminal:
    return Terminal(BytesIO(), encoding=encoding)


def test_a_screen_is_a_terminal_that_can_be_drawn_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    assert opening.is_screen(terminal(), terminal())
    assert not opening.is_screen(StringIO(), terminal())
    assert not opening.is_screen(terminal(), StringIO())
    assert not opening.is_screen(terminal(), terminal("latin-1"))
    for name in ("dumb", ""):
        monkeypatch.setenv("TERM", name)
        assert not opening.is_screen(terminal(), terminal())


def test_where_textual_is_missing_lines_serve_and_say_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(opening, "is_screen", lambda *_: True)
    monkeypatch.setattr(opening, "installed", lambda: False)
    monkeypatch.setattr(sys, "stdin", terminal())

    assert _ended(["debug", NAN]) == 0
    said = capsys.readouterr()
    assert said.err.count("pip install textual") == 1
    assert "moment 0 of" in said.out


def test_who_asks_for_lines_gets_them(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[Walk] = []
    monkeypatch.setattr(opening, "is_screen", lambda *_: True)
    monkeypatch.setattr(opening, "installed", lambda: True)
    monkeypatch.setattr(opening, "show", shown.append)
    for words in (["--plain"], ["--width", "80"], ["-x", "state"]):
        monkeypatch.setattr(sys, "stdin", terminal())
        assert _ended(["debug", NAN, *words]) == 0
    assert not shown

    monkeypatch.setattr(sys, "stdin", terminal())
    assert _ended(["debug", NAN, "--at", "nan"]) == 0
    assert [walk.moment for walk in shown] == [Walk(NAN).place("nan")]


def _ended(words: list[str]) -> int:
    try:
        return main(words) or 0
    except SystemExit as exit_:
        return int(exit_.code or 0)


def test_what_a_command_raises_to_leave_is_raised_when_the_screen_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("textual", reason="pip install textual")
    from tests.debug.screen.driven import driven

    class GoesOnError(Exception):
        pass

    def goes_on(_: Walk, many: int) -> None:
        raise GoesOnError(many)

    monkeypatch.setattr(Walk, "node", goes_on)
    left = driven(Walk(NAN), ">", leaving=(GoesOnError,)).app

    assert isinstance(left.return_value, GoesOnError)
    monkeypatch.setattr(type(left), "run", lambda _: left.return_value)
    with pytest.raises(GoesOnError):
        opening.show(Walk(NAN), (GoesOnError,))


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pseudo-terminals of this kind")
def test_at_a_real_terminal_keys_move_and_q_leaves_it_as_it_was() -> None:
    pytest.importorskip("textual", reason="pip install textual")
    child, terminal_ = _at_a_terminal("debug", NAN)
    seen = _until(terminal_, b"q quit")
    os.write(terminal_, b">>")
    seen += _until(terminal_, b"WhereBackward0 begins")
    os.write(terminal_, b"q")
    seen += _until(terminal_, b"\x1b[?1049l")
    _, status = os.waitpid(child, 0)
    os.close(terminal_)

    assert os.waitstatus_to_exitcode(status) == 0
    assert b"\x1b[?1049h" in seen
    assert b"Traceback" not in seen


@pytest.mark.skipif(sys.platform == "win32", reason="likewise")
def test_a_program_that_is_stopped_fills_the_terminal_and_goes_on(tmp_path: Path) -> None:
    pytest.importorskip("textual", reason="pip install textual")
    script = tmp_path / "train.py"
    script.write_text(
        "import torch\nx = torch.ones(2, requires_grad=True)\nfor _ in range(2):\n"
        "    (x * 3).tanh().sum().backward()\nprint('ended', x.grad.sum())\n"
    )
    child, terminal_ = _at_a_terminal(
        "trace", "--on", "gradscope", "-o", str(tmp_path / "trace.json"), "--screen", "--break",
        "TanhBackward0", str(script),
    )  # fmt: skip
    seen = _until(terminal_, b"q quit", 60)
    os.write(terminal_, b"c")
    seen += _until(terminal_, b"\x1b[?1049l") + _until(terminal_, b"q quit")
    os.write(terminal_, b"q")
    seen += _until(terminal_, b"(gradscope) ")
    os.write(terminal_, b"detach\r")
    seen += _until(terminal_, b"next: gradscope view")
    _, status = os.waitpid(child, 0)
    os.close(terminal_)

    assert os.waitstatus_to_exitcode(status) == 0
    assert b"ended" in seen
    assert b"Traceback" not in seen


def _at_a_terminal(*arguments: str) -> tuple[int, int]:
    """gradscope, as a child, and the terminal that it has."""
    import pty

    child, terminal_ = pty.fork()
    if child == 0:
        os.environ |= {"TERM": "xterm-256color", "COLUMNS": "80", "LINES": "24"}
        os.execv(sys.executable, [sys.executable, "-m", "gradscope", *arguments])
    return child, terminal_


def _until(terminal_: int, text: bytes, seconds: float = 20) -> bytes:
    """What is written until this is."""
    seen, end = b"", time.monotonic() + seconds
    while text not in seen:
        ready, _, _ = select.select([terminal_], [], [], max(end - time.monotonic(), 0))
        assert ready, f"{text!r} was not written in {seconds} s, but {seen[-300:]!r}"
        seen += os.read(terminal_, 1 << 16)
    return seen
