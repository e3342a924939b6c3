"""Creates the debugger of a running program for the terminal or editor."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Sequence

from gradscope.debug.dap.live import Editor
from gradscope.debug.lines import typed
from gradscope.debug.live.ends import StopOnFinding
from gradscope.debug.live.front import LineConsole, ScreenConsole
from gradscope.debug.live.stopping import Live
from gradscope.debug.screen import opening
from gradscope.errors import UsageError, how_to_install
from gradscope.render.terminal.terminal import Terminal

PIPE_SCREEN, LEAST, PROMPT_LINES = 40, 12, 2
NUMBERS = ("nan", "inf")
"""Breakpoints that need values."""

INSIDE = {"forward": "called", "backward": "begins"}
"""Kinds of places, by phase."""


def level_for(breaks: Sequence[str], level: str) -> str:
    """The requested level, or `values` if a breakpoint needs it."""
    words = {each.split()[0] for each in breaks if each.split()}
    return "values" if words & {*NUMBERS} and level in ("graph", "engine") else level


def debugger(
    breaks: Sequence[str] = (),
    inside: str | None = None,
    execute: Sequence[str] | None = None,
    where: str | None = None,
    *,
    screen: bool = False,
    mourns: bool = False,
    ends: StopOnFinding | None = None,
) -> Live:
    """A debugger with these breakpoints, which runs typed commands or those to execute.

    `where`: a port or path where it waits for an editor. `screen`: fill the terminal at each stop.
    `mourns`: also stop where the program crashes. `ends`: what ends it without interaction.
    """
    if inside is not None and inside not in INSIDE:
        raise UsageError(f"--break-in takes forward or backward, not {inside!r}")
    editor = None if where is None else Editor(where)
    asks = bool(breaks) or inside is not None or mourns or editor is not None or ends is None
    front = editor or _lines(execute, ScreenConsole if screen else LineConsole)
    made = Live(front, ends, at_places=asks, mourns=mourns)
    for text in breaks:
        made.add(text)
    if inside is not None:
        made.until(lambda place: place.kind == INSIDE[inside])
    if editor is not None:
        editor.waits(made)
    return made


def _lines(execute: Sequence[str] | None, kind: type[LineConsole]) -> LineConsole:
    if kind is ScreenConsole:
        if execute or not opening.is_screen(sys.stdin, sys.stdout):
            raise UsageError("--screen needs an interactive terminal")
        if not opening.installed():
            raise UsageError(f"--screen needs Textual: {how_to_install('textual')}")
    by_hand = not execute and sys.stdin.isatty()
    height = shutil.get_terminal_size().lines - PROMPT_LINES if by_hand else PIPE_SCREEN
    out = Terminal(sys.stderr, plain=False, width=None)
    commands = typed() if by_hand else execute or _piped()
    return kind(out, max(height, LEAST), commands, by_hand=by_hand)


def _piped() -> Iterator[str]:
    yield from sys.stdin
