"""What stands in a panel: lines, each with what choosing it does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from gradscope.render.terminal.cells import Charset, wrapped
from gradscope.render.terminal.styles import BOLD, SOFT, WARN
from gradscope.scene.answers.answer import Answer
from gradscope.trace.schema import NONE

FOLDS = 500
"""A list of more lines is shown as it is: breaking them would take longer than a step may."""
MARGIN = 2
"""How far lines after the first of an entry stand in."""


@dataclass(frozen=True, slots=True)
class PanelLine:
    """One line. `command`: what choosing it types; `node`: which node it shows."""

    text: str
    style: str = ""
    sign: str = ""  # stands in the margin
    command: str = ""
    node: int = NONE
    further: bool = False  # goes on with the line before it

    @property
    def leads(self) -> bool:
        """Whether choosing it does anything."""
        return bool(self.command) or self.node != NONE


def heading(text: str) -> PanelLine:
    """A line that says what those below it are."""
    return PanelLine(text, SOFT)


def fact(name: str, text: str) -> PanelLine:
    """As in "made at  train.py:41"."""
    return PanelLine(f"{name}  {text}")


def folded(entries: list[PanelLine], charset: Charset, width: int) -> list[PanelLine]:
    """The same, broken between words where a line is longer than the panel is wide."""
    if len(entries) > FOLDS:
        return entries
    return [part for entry in entries for part in _parts(entry, charset, width)]


def _parts(entry: PanelLine, charset: Charset, width: int) -> Iterator[PanelLine]:
    indent = len(entry.text) - len(entry.text.lstrip(" "))
    room = max(width - len(entry.sign) - indent - MARGIN, 1)
    first, *others = wrapped(charset, entry.text[indent:], room)
    yield replace(entry, text=" " * indent + first)
    sign = " " * len(entry.sign)
    for each in others:
        yield replace(entry, text=" " * (indent + MARGIN) + each, sign=sign, further=True)


def answered(answer: Answer) -> Iterator[PanelLine]:
    yield PanelLine(answer.title, BOLD)
    width = max((len(name) for name, _ in answer.facts), default=0)
    for name, text in answer.facts:
        yield PanelLine(f"{name.ljust(width)}  {text}")
    for section in answer.sections:
        yield PanelLine("")
        if section.title:
            yield PanelLine(section.title, BOLD)
        yield from (PanelLine(f"  {text}") for text in section.lines)
    if answer.notes:
        yield PanelLine("")
        yield from (PanelLine(text, WARN) for text in answer.notes)
