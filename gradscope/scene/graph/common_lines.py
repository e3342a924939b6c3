"""Moves lines that boxes repeat to their frame, and removes needless frames."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from gradscope.scene.graph.picture import Box, BoxLine, Group, Tone
from gradscope.scene.kinds import Form

Source = tuple[BoxLine, ...]
"""A source line: its location and text."""
OWN_LINES = (Form.FUNCTION, Form.OPERATION)
"""Forms of boxes that show their source line."""
FEWEST = 4
"""Least number of boxes in a picture for a line to be shown above it."""
FEWEST_OUTSIDE = 2
"""Least number of boxes outside frames that share that line."""


def without_lone_frames(
    boxes: Sequence[Box], groups: Sequence[Group]
) -> tuple[tuple[Box, ...], tuple[Group, ...]]:
    """Boxes and frames, without frames around a single box or frame."""
    held = Counter(box.group for box in boxes) + Counter(group.parent for group in groups)
    with_box = {box.group for box in boxes}
    lone = {each.id: each for each in groups if held[each.id] == 1 and each.id in with_box}
    outer = {each.id: each for each in groups if held[each.id] == 1 and each.id not in with_box}
    kept = [_merged(each, outer) for each in groups if each.id not in {*lone, *outer}]
    lone = {id: _merged(each, outer) for id, each in lone.items()}
    return tuple(_unframed(box, lone) for box in boxes), tuple(kept)


def _merged(group: Group, outer: Mapping[str, Group]) -> Group:
    """A frame, merged with the titles of frames that contain only it."""
    while group.parent in outer:
        around = outer[group.parent]
        said = f"{around.title} › " * (" " in around.title)
        group = replace(group, title=f"{said}{group.title}", parent=around.parent)
    return group


def _unframed(box: Box, lone: Mapping[str, Group]) -> Box:
    frame = lone.get(box.group)
    if frame is None:
        return box
    lines = box.lines
    said = box.title.startswith(frame.title.partition(" · ")[0])  # of a module, its path
    if box.form is not Form.FOLDED or not said:
        lines = (BoxLine(frame.title), *lines)
    return replace(box, group=frame.parent, lines=lines)


def shared_lines(
    boxes: Sequence[Box], groups: Sequence[Group]
) -> tuple[tuple[Box, ...], tuple[Group, ...], Source]:
    """Boxes and frames, with lines that most boxes of a frame share moved to the frame.

    And the line that most boxes of the picture share. A box without a line comes from the line of
    its frame; so if the line of any box is unknown, nothing is moved.
    """
    own: dict[str, list[Source]] = defaultdict(list)  # by group
    inside: dict[str, list[Source]] = defaultdict(list)  # of frames in it, too
    parents = {group.id: group.parent for group in groups}
    for box in boxes:
        if box.form in OWN_LINES:
            own[box.group].append(_source(box))
            for id in ("", *_outward(box.group, parents)):
                inside[id].append(_source(box))
    whole = () if () in inside[""] else _shared(inside[""])
    if len(inside[""]) < FEWEST or own[""].count(whole) < FEWEST_OUTSIDE:
        whole = ()
    said: dict[str, Source] = {"": whole}  # by group: what a box in it need not repeat
    framed = []
    for group in groups:
        around = said[group.parent]
        line = () if () in inside[group.id] else _shared(own[group.id] or inside[group.id])
        said[group.id] = line or around
        framed.append(replace(group, lines=line) if line and line != around else group)
    return tuple(_without(box, said[box.group]) for box in boxes), tuple(framed), whole


def _shared(sources: list[Source]) -> Source:
    """The line that more than half of these boxes come from."""
    ((most, times),) = Counter(sources).most_common(1) or [((), 0)]
    return most if times > 1 and 2 * times > len(sources) else ()


def _source(box: Box) -> Source:
    return tuple(line for line in box.lines if line.tone in (Tone.SITE, Tone.CODE))


def _without(box: Box, source: Source) -> Box:
    if box.form not in OWN_LINES or not source or _source(box) != source:
        return box
    return replace(box, lines=tuple(line for line in box.lines if line not in source))


def _outward(id: str, parents: Mapping[str, str]) -> list[str]:
    found = []
    while id:
        found.append(id)
        id = parents.get(id, "")
    return found
