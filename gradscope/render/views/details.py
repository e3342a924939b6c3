"""All there is about one node, tensor or operation: for a person, and for programs as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict

from rich.text import Text

from gradscope.render.terminal.cells import Charset, line, wrapped
from gradscope.render.terminal.styles import BOLD, SOFT
from gradscope.render.text import visible_json
from gradscope.render.views.tables import facts_lines
from gradscope.scene.details import ChosenScene
from gradscope.scene.readable import count
from gradscope.scene.tables import FactsScene

INDENT = "  "
FURTHER = "    "


def chosen_lines(scene: ChosenScene, width: int, charset: Charset, rows: int) -> Iterator[Text]:
    """Its row, then each section, of at most so many lines; all of them with 0."""
    for part in wrapped(charset, scene.title, width):
        yield line((part, BOLD))
    yield from facts_lines(FactsScene(scene.facts), width, charset)
    for section in scene.sections:
        yield line("")
        yield line((charset.fit(section.title, width).rstrip(), BOLD))
        shown = section.lines[:rows] if rows else section.lines
        for text in shown:
            indent = INDENT
            for part in wrapped(charset, text, width - len(FURTHER)):
                yield line(indent, part)
                indent = FURTHER
        left = len(section.lines) - len(shown)
        if left:
            yield line((f"{INDENT}and {count(left)} more; --rows N for more", SOFT))


def chosen_json(scene: ChosenScene) -> str:
    """The same for programs."""
    return visible_json(json.dumps(asdict(scene), ensure_ascii=False, indent=2))
