"""What `gradscope trace --break` and its like ask for, and who talks with the user then."""

import shutil
import sys
from typing import TYPE_CHECKING

from gradscope.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gradscope.debug.live.stopping import Live
    from gradscope.render.terminal.terminal import Terminal

PIPE_SCREEN, LEAST, PROMPT_LINES = 40, 12, 2
NEEDS_VALUES = ("nan", "inf")
IN = {"forward": "op", "backward": "node"}


def level_for(breaks: "Sequence[str]", level: str) -> str:
    """The level that was asked for, or `values` where a breakpoint asks for numbers."""
    words = {each.split()[0] for each in breaks if each.split()}
    return "values" if words & {*NEEDS_VALUES} and level in ("graph", "engine") else level


def live(breaks: "Sequence[str]", inside: str | None, execute: "Sequence[str] | None") -> "Live":
    """The debugger that stops at these."""
    from gradscope.debug.lines import typed
    from gradscope.debug.live.stopping import Live

    if inside is not None and inside not in IN:
        raise UsageError(f"--break-in takes forward or backward, not {inside!r}")
    by_hand = not execute and sys.stdin.isatty()
    height = shutil.get_terminal_size().lines - PROMPT_LINES if by_hand else PIPE_SCREEN
    made = Live(
        out(), max(height, LEAST), typed() if by_hand else execute or _piped(), by_hand=by_hand
    )
    for text in breaks:
        made.add(text)
    if inside is not None:
        made.until(lambda place: place.kind == ("called" if inside == "forward" else "begins"))
    return made


def out() -> "Terminal":
    """Where the debugger of a running program speaks: beside what the program prints."""
    from gradscope.render.terminal.terminal import Terminal

    return Terminal(sys.stderr, plain=False, width=None)


def _piped() -> "Iterator[str]":
    yield from sys.stdin
