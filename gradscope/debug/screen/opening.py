"""Whether the program can be shown here, and showing it. Loads Textual only then."""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import TYPE_CHECKING, TextIO

from gradscope.errors import how_to_install
from gradscope.render.terminal.cells import can_show

if TYPE_CHECKING:
    from gradscope.debug.walk import Walk

HOW_TO_GET = f"to use the whole screen: {how_to_install('textual')} (--plain: without this line)"
NO_SCREEN = ("", "dumb", "unknown")
"""Values of TERM where text cannot be put anywhere but on the next line."""


def is_screen(stdin: TextIO, stdout: TextIO) -> bool:
    """Whether somebody sits before a terminal that can show whole screens."""
    if not (stdin.isatty() and stdout.isatty() and can_show(stdout.encoding)):
        return False
    return os.name == "nt" or os.environ.get("TERM", "") not in NO_SCREEN


def installed() -> bool:
    return find_spec("textual") is not None


def show(walk: Walk, leaving: tuple[type[BaseException], ...] = ()) -> None:
    """Until somebody quits, the walk being where they left it; or a command raises one of these."""
    from gradscope.debug.screen.app import Debugger  # noqa: PLC0415 -- Textual is no dependency

    left = Debugger(walk, leaving).run()
    if left is not None:
        raise left
