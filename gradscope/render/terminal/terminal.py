"""The terminal, pipe or file that text is written to: its width and its characters."""

from __future__ import annotations

import os
from collections.abc import Iterable
from itertools import islice, pairwise
from math import inf
from typing import NoReturn, TextIO

from rich.console import COLOR_SYSTEMS, Console
from rich.style import Style
from rich.text import Text

from gradscope.render.terminal.cells import PLAIN, UNICODE, can_show

NARROWEST = 60
AT_ONCE = 200
"""Number of lines that are written together."""
PIPE_WIDTH = 100
"""Default width of text in a pipe or file."""


class Terminal:
    """The output of a view."""

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
        self._styles: dict[str | Style, Style] = {}

    @property
    def width(self) -> int:
        return self._console.width

    @property
    def height(self) -> float:
        """How many lines are seen at once; in a file or a pipe, any number."""
        return self._console.height if self._console.is_terminal else inf

    def show(self, lines: Iterable[Text]) -> None:
        rest = iter(lines)
        while part := [self._drawn(text) for text in islice(rest, AT_ONCE)]:
            try:
                self._console.file.write("".join(part))
                self._console.file.flush()
            except BrokenPipeError:
                self._console.on_broken_pipe()

    def _drawn(self, text: Text) -> str:
        """A line with its styles, as Rich draws it; faster without nested styles."""
        plain, system = text.plain, self._console.color_system
        if system is None:  # a pipe, or a terminal that shows no styles
            return f"{plain}\n"
        if text.style or any(a.end > b.start for a, b in pairwise(text.spans)):
            with self._console.capture() as captured:
                self._console.print(text, soft_wrap=True)
            return captured.get()
        drawn, at = [], 0
        for start, end, style in text.spans:
            drawn.append(plain[at:start])
            drawn.append(
                self._style(style).render(plain[start:end], color_system=COLOR_SYSTEMS[system])
            )
            at = end
        return "".join((*drawn, plain[at:], "\n"))

    def _style(self, name: str | Style) -> Style:
        if name not in self._styles:
            style = self._console.get_style(name)
            self._styles[name] = style.without_color if self._console.no_color else style
        return self._styles[name]


class _Console(Console):
    """A console that lets the command line decide what a closed pipe means."""

    def on_broken_pipe(self) -> NoReturn:
        """Raise an error without an errno, for which Typer would exit."""
        raise BrokenPipeError from None
