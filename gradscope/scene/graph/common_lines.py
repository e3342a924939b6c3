"""Source lines that most boxes of a frame share: said once, on the frame."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from gradscope.scene.graph.picture import Box, Form, Group, Line, Tone

Source = tuple[Line, ...]
"""The place of a source line, and its text."""


def shared_lines(
    boxes: Sequence[Box], groups: Sequence[Group]
) -> tuple[tuple[Box, ...], tuple[Group, ...]]:
    """The same boxes and groups, with lines that several boxes share on their frame instead.

    A box that says no line of its own comes from that of the frame around it; so where the line of
    a box is not known, nothing is shared.
    """
    inside: dict[str, list[Source]] = defaultdict(list)
    parents = {group.id: group.parent for group in groups}
    for box in boxes:
        if box.form is Form.FUNCTION:
            inside[box.group].append(_source(box))
    unsure: set[str] = set()
    for id, sources in inside.items():
        if () in sources:
            unsure |= set(_outward(id, parents))
    said: dict[str, Source] = {"": ()}  # by group: what a box in it need not repeat
    framed = []
    for group in groups:
        around = said[group.parent]
        line = () if group.id in unsure else _shared(inside[group.id])
        said[group.id] = line or around
        framed.append(replace(group, lines=line) if line and line != around else group)
    return tuple(_without(box, said[box.group]) for box in boxes), tuple(framed)


def _shared(sources: list[Source]) -> Source:
    """The line that more than half of several boxes come from."""
    ((most, times),) = Counter(sources).most_common(1) or [((), 0)]
    return most if times > 1 and 2 * times > len(sources) else ()


def _source(box: Box) -> Source:
    return tuple(line for line in box.lines if line.tone in (Tone.SITE, Tone.CODE))


def _without(box: Box, source: Source) -> Box:
    if box.form is not Form.FUNCTION or not source or _source(box) != source:
        return box
    return replace(box, lines=tuple(line for line in box.lines if line not in source))


def _outward(id: str, parents: Mapping[str, str]) -> list[str]:
    found = []
    while id:
        found.append(id)
        id = parents.get(id, "")
    return found
