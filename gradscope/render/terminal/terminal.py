"""The terminal, pipe or file that text is shown in: how wide it is, and what it can show."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import NoReturn, TextIO

from rich.console import Console
from rich.text import Text

from gradscope.render.terminal.cells import PLAIN, UNICODE, can_show

NARROWEST = 60
PIPE_WIDTH = 100
"""How wide text is when nobody says, and it goes into a pipe or a file."""


class Terminal:
    """Where a view is shown."""

    def __init__(self, file: TextIO, *, plain: bool = False, width: int | None = None) -> None:
        self.charset = UNICODE if can_show(file.encoding) and not plain else PLAIN
        self._console = _Console(
            file=file,
            width=width,
            color_system=None if plain else "auto",
            highlight=False,
            markup=False,
            emoji=False,
        )
        if width is None and not self._console.is_terminal and "COLUMNS" not in os.environ:
            self._console.width = PIPE_WIDTH
        self._console.width = max(self._console.width, NARROWEST)

    @property
    def width(self) -> int:
        return self._console.width

    def show(self, lines: Iterable[Text]) -> None:
        for text in lines:
            self._console.print(text, soft_wrap=True)


class _Console(Console):
    """A console that lets the command line decide what a closed pipe means."""

    def on_broken_pipe(self) -> NoReturn:
        raise BrokenPipeError
