"""Starts the full-screen debugger, if the terminal supports it. Loads Textual on demand."""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import TYPE_CHECKING, TextIO

from gradscope.errors import how_to_install
from gradscope.render.terminal.cells import can_show

if TYPE_CHECKING:
    from gradscope.debug.walk import Walk

HOW_TO_GET = f"for a full-screen debugger: {how_to_install('textual')} (--plain hides this line)"
NO_SCREEN = ("", "dumb", "unknown")
"""Values of TERM of terminals that cannot position text."""


def is_screen(stdin: TextIO, stdout: TextIO) -> bool:
    """Whether this is an interactive terminal that can show full screens."""
    if not (stdin.isatty() and stdout.isatty() and can_show(stdout.encoding)):
        return False
    return os.name == "nt" or os.environ.get("TERM", "") not in NO_SCREEN


def installed() -> bool:
    return find_spec("textual") is not None


def show(walk: Walk, leaving: tuple[type[BaseException], ...] = ()) -> None:
    """Run until the user quits or a command raises one of these."""
    from gradscope.debug.screen.app import Debugger  # noqa: PLC0415 -- Textual is no dependency

    left = Debugger(walk, leaving).run()
    if left is not None:
        raise left
