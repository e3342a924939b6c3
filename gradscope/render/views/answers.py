"""The answer of `inspect` about one thing: as text on one screen, or as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum, IntEnum
from typing import Any

from rich.text import Text

from gradscope.render.terminal.cells import Charset, line, wrapped
from gradscope.render.terminal.paths import ShortPaths
from gradscope.render.terminal.styles import BOLD, SOFT, WARN
from gradscope.render.text import visible_json
from gradscope.render.views.tables import facts_lines
from gradscope.scene.answers.answer import Answer, Topic
from gradscope.scene.readable import count
from gradscope.scene.table_scenes import FactsScene

VERSION = 1
INDENT = "  "
FURTHER = "    "
SCREEN = 40
"""Number of lines of an answer, unless more are requested."""
TALLEST = 3
"""Largest number of lines of one entry."""
BESIDES = 2
"""Number of lines about sections that are left out."""


@dataclass(frozen=True, slots=True)
class ScreenSize:
    """How much is shown at once, and how to see more."""

    lines: int = SCREEN
    some: str = "--rows N or --all"
    all: str = "with --all"


COMMAND_LINE = ScreenSize()


def answer_lines(
    answer: Answer,
    width: int,
    charset: Charset,
    rows: int | None = None,
    screen: ScreenSize = COMMAND_LINE,
) -> Iterator[Text]:
    """The lines of an answer: one screen, or `rows` lines of each section, 0 for all."""
    short = ShortPaths()
    head = [line((part, BOLD)) for part in wrapped(charset, short(answer.title), width)]
    if answer.facts:
        facts = tuple((name, short(text)) for name, text in answer.facts)
        head += facts_lines(FactsScene(facts), width, charset)
    notes = [line((part, WARN)) for each in answer.notes for part in wrapped(charset, each, width)]
    shortened = [Topic(short(each.title), short.all(each.lines)) for each in answer.sections]
    sections = [_block(each, width, charset, cut=rows is None) for each in shortened]
    room = screen.lines - len(head) - len(notes) - bool(notes) - BESIDES
    shown = _fitting(sections, room) if rows is None else [rows or len(s.entries) for s in sections]
    yield from head
    for block, number in zip(sections, shown, strict=True):
        if number:
            yield from _section_lines(block, number, screen)
    left_out = [s for s, number in zip(sections, shown, strict=True) if not number and s.entries]
    if left_out:
        titles = ", ".join(f"{each.title} ({count(len(each.entries))})" for each in left_out)
        yield line("")
        yield line((charset.fit(f"more {screen.all}: {titles}", width).rstrip(), SOFT))
    if notes:
        yield line("")
        yield from notes


@dataclass(frozen=True, slots=True)
class _Block:
    """A section, with each entry in lines."""

    title: str
    entries: list[list[Text]]


def _block(section: Topic, width: int, charset: Charset, *, cut: bool) -> _Block:
    entries = []
    for text in section.lines:
        parts = wrapped(charset, text, width - len(FURTHER))
        if cut and len(parts) > TALLEST:
            end = charset.fit(f"{parts[TALLEST - 1]} {parts[TALLEST]}", width - len(FURTHER))
            parts = [*parts[: TALLEST - 1], end]
        first, *further = parts
        entries.append([line(INDENT, first), *(line(FURTHER, part) for part in further)])
    return _Block(charset.fit(section.title, width).rstrip(), entries)


def _section_lines(block: _Block, number: int, screen: ScreenSize) -> Iterator[Text]:
    if block.title:
        yield line("")
        yield line((block.title, BOLD))
    for entry in block.entries[:number]:
        yield from entry
    left = len(block.entries) - number
    if left > 0:
        yield line((f"{INDENT}and {count(left)} more; {screen.some} for more", SOFT))


def _fitting(blocks: Sequence[_Block], room: int) -> list[int]:
    """Number of entries of each section that fit, distributed evenly."""
    shown = [0] * len(blocks)
    left = room
    for place, block in enumerate(blocks):
        cost = 3 + len(block.entries[0])  # an empty line, the title, and what is left out
        if cost + 1 > left and place:
            break
        shown[place], left = 1, left - cost
    grows = True
    while grows:
        grows = False
        for place, block in enumerate(blocks):
            if shown[place] and shown[place] < len(block.entries):
                cost = len(block.entries[shown[place]])
                if cost <= left:
                    shown[place], left, grows = shown[place] + 1, left - cost, True
    for place, block in enumerate(blocks):  # its line is as long as "and 1 more"
        last = shown[place] and shown[place] == len(block.entries) - 1
        shown[place] += bool(last and len(block.entries[-1]) == 1)
    return shown


def answer_json(answer: Answer, question: str, asked: str) -> str:
    """The answer as JSON. Fields may be added, never renamed."""
    document = {
        "version": VERSION,
        "question": question,
        "asked": asked,
        "answer": answer.title,
        "facts": dict(answer.facts),
        "sections": [{"title": each.title, "lines": each.lines} for each in answer.sections],
        "notes": answer.notes,
        "data": _plain(answer.data),
    }
    return visible_json(json.dumps(document, ensure_ascii=False, indent=2))


def _plain(value: object) -> Any:
    """Dataclasses as objects, enums by name, NaN and Inf as null."""
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: _plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, Enum):
        return value.name.lower() if isinstance(value, IntEnum) else str(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
