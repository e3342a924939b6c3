"""Lines of panels, each with the action of selecting it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from gradscope.render.terminal.cells import Charset, wrapped
from gradscope.render.terminal.styles import BOLD, SOFT, WARN
from gradscope.scene.answers.answer import Answer
from gradscope.trace.schema import NONE

FOLDS = 500
"""Lists with more lines are not wrapped, since that would take too long."""
MARGIN = 2
"""Indentation of wrapped lines."""


@dataclass(frozen=True, slots=True)
class PanelLine:
    """One line. `command`: what selecting it runs; `node`: the node it shows."""

    text: str
    style: str = ""
    sign: str = ""  # shown in the margin
    command: str = ""
    node: int = NONE
    further: bool = False  # continues the previous line

    @property
    def leads(self) -> bool:
        """Whether selecting it has an action."""
        return bool(self.command) or self.node != NONE


def heading(text: str) -> PanelLine:
    """A heading for the lines below."""
    return PanelLine(text, SOFT)


def fact(name: str, text: str) -> PanelLine:
    """As in "created at  train.py:41"."""
    return PanelLine(f"{name}  {text}")


def folded(entries: list[PanelLine], charset: Charset, width: int) -> list[PanelLine]:
    """The lines, wrapped to the width of the panel."""
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
