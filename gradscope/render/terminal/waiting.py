"""A spinner with a text in a terminal; nothing in pipes and files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from rich.console import Console


@contextmanager
def waiting(file: TextIO, text: str, *, plain: bool = False) -> Iterator[Callable[[str], None]]:
    """Show `text` until the block ends; the yielded function replaces the text."""
    console = Console(
        file=file,
        highlight=False,
        markup=False,
        emoji=False,
        color_system=None if plain else "auto",
    )
    if not console.is_terminal:
        yield lambda _: None
        return
    with console.status(text, spinner="line" if plain else "dots") as status:
        yield status.update
