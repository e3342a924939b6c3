"""Mermaid: the picture as a flowchart in text, which GitHub, GitLab and many notebooks draw."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

from gradscope.render.formats import Drawn, Format
from gradscope.render.looks import BoxStyle, look_of
from gradscope.render.text import visible
from gradscope.render.theme import GLYPHS, Theme
from gradscope.scene.graph.picture import Box, GraphScene, Group
from gradscope.scene.kinds import Form

PLAIN = re.compile(r"[^A-Za-z0-9 _.,:()\[\]=+*/…·×µ-]")
LONGEST = 120
MOST_ARROWS, MOST_CHARACTERS = 500, 50_000
"""Limits of Mermaid, unless its page sets `maxEdges` and `maxTextSize`."""
SHAPES = {
    Form.LEAF: ("[", "]"),
    Form.DATA: ("[(", ")]"),
    Form.SAVED: ("[/", "/]"),
    Form.FOLDED: ("[[", "]]"),
}
LINES = {Form.SAVED: "-.-", Form.FOLDED: "==>", Form.ORDER: "-.->", Form.MADE: "-.-"}


def write(scene: GraphScene, theme: Theme) -> Drawn:
    text = "\n".join(_lines(scene, theme)) + "\n"
    return Drawn(text.encode(), tuple(_too_large(scene, text)))


FORMAT = Format(
    "mermaid",
    ".mmd",
    "a flowchart in text, which GitHub draws",
    write,
    endings=(".mmd",),
)


def _too_large(scene: GraphScene, text: str) -> Iterator[str]:
    arrows = len(scene.arrows) + len(scene.ties)
    if arrows > MOST_ARROWS or len(text) > MOST_CHARACTERS:
        yield (
            f"{arrows:,} arrows, {len(text):,} characters: Mermaid draws at most "
            f"{MOST_ARROWS:,} and {MOST_CHARACTERS:,} by default; --limit draws less"
        )


def _lines(scene: GraphScene, theme: Theme) -> Iterator[str]:
    yield "---"
    yield f"title: {_front(scene.title)}"
    yield "---"
    yield "flowchart TB"
    yield from (f"%% {_escaped(note)}" for note in scene.notes)
    names = {box.id: f"b{number}" for number, box in enumerate(scene.boxes)}
    yield from _inside(scene, names)
    for arrow in (*scene.arrows, *scene.ties):
        line = LINES.get(arrow.form, "-->")
        label = f'|"{_escaped(arrow.label)}"|' if arrow.label.strip() else ""
        yield f"    {names[arrow.tail]} {line}{label} {names[arrow.head]}"
    looks: dict[BoxStyle, list[str]] = defaultdict(list)
    for box in scene.boxes:
        looks[look_of(box, scene, theme)].append(names[box.id])
    for number, (look, boxes) in enumerate(looks.items()):
        dashes = ",stroke-dasharray:5 3" if look.dashed else ""
        paint = f"fill:{look.fill},stroke:{look.line},stroke-width:{look.width}px"
        yield f"    classDef look{number} {paint},color:{theme.ink}{dashes}"
        yield f"    class {','.join(boxes)} look{number}"
    if scene.groups:
        paint = f"fill:{theme.group.fill},stroke:{theme.group.line},color:{theme.soft}"
        yield f"    classDef frame {paint}"
        yield f"    class {','.join(f'g{number}' for number in range(len(scene.groups)))} frame"


def _front(text: str) -> str:
    """Text for the YAML above a flowchart."""
    shown = visible(text).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{shown}"'


def _inside(scene: GraphScene, names: dict[str, str]) -> Iterator[str]:
    """The boxes inside nested frames."""
    boxes: dict[str, list[Box]] = defaultdict(list)
    for box in scene.boxes:
        boxes[box.group].append(box)
    children: dict[str, list[Group]] = defaultdict(list)
    for group in scene.groups:
        children[group.parent].append(group)
    numbers = {group.id: number for number, group in enumerate(scene.groups)}
    waiting: list[tuple[str | Group, int]] = [("", 0)]
    while waiting:
        item, depth = waiting.pop()
        indent = "    " * (depth + (not isinstance(item, Group)))
        if item == "end":
            yield f"{indent}end"
            continue
        id = item.id if isinstance(item, Group) else ""
        if isinstance(item, Group):
            indent = "    " * depth
            words = [item.title or "(unnamed)", *(line.text for line in item.lines if line.text)]
            yield f'{indent}subgraph g{numbers[id]}["{_label(words)}"]'
            indent += "    "
            waiting.append(("end", depth - 1))
        yield from (f"{indent}{_box(box, names[box.id])}" for box in boxes[id])
        waiting += [(group, depth + 1) for group in reversed(children[id])]


def _box(box: Box, name: str) -> str:
    opens, closes = SHAPES.get(box.form, ("(", ")"))
    words = [f"{box.title or '(unnamed)'} {box.ordinal}".rstrip()]
    words += [f"{GLYPHS[mark]} {mark.value}" for mark in box.marks]
    words += [line.text for line in box.lines if line.text]
    return f'{name}{opens}"{_label(words)}"{closes}'


def _label(words: list[str]) -> str:
    return "<br>".join(_escaped(each) for each in words)


def _escaped(text: str) -> str:
    """Text that Mermaid shows unchanged: special characters are written as their numbers."""
    return PLAIN.sub(lambda match: f"#{ord(match[0])};", visible(text, LONGEST)).strip()
