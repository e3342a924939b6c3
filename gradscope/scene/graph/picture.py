"""What a picture of a graph is made of. Formats turn it into text; they decide nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from gradscope.scene.choices import ColorBy, GraphOf
from gradscope.scene.kinds import BoxMark, Form, NodeKind
from gradscope.trace.schema import NONE


class Tone(StrEnum):
    """How a line of a box is written."""

    PLAIN = "plain"
    SITE = "site"  # a source line's place
    CODE = "code"  # a source line's text
    ALARM = "alarm"


@dataclass(frozen=True, slots=True)
class BoxLine:
    """One line of a box, below its title."""

    text: str
    tone: Tone = Tone.PLAIN
    backward: int = NONE  # the number of the backward it is about, where there are several


@dataclass(frozen=True, slots=True)
class Box:
    """One box of the picture."""

    id: str
    form: Form
    title: str
    ordinal: str  # "#2" when other nodes have the same name
    kind: NodeKind
    lines: tuple[BoxLine, ...]
    marks: tuple[BoxMark, ...]
    heat: float | None  # from 0 to 1, on the picture's scale; None where there is no number
    group: str  # "" outside of all groups
    tooltip: tuple[str, ...]  # lines
    nodes: tuple[int, ...]  # those of the trace that it stands for
    lane: int = NONE  # in which of the picture's lanes it ran, where there are several
    calls: tuple[int, ...] = ()  # the forward calls of the trace that it stands for


def occurring(
    boxes: Sequence[Box],
) -> tuple[tuple[NodeKind, ...], tuple[Form, ...], tuple[BoxMark, ...]]:
    """Which kinds, forms and marks boxes have, in their fixed order: for the legend."""
    own = (Form.FUNCTION, Form.OPERATION, Form.LEAF)
    kinds = {box.kind for box in boxes if box.form in own}
    forms = {box.form for box in boxes}
    marks = {mark for box in boxes for mark in box.marks}
    return (
        tuple(each for each in NodeKind if each in kinds),
        tuple(each for each in Form if each in forms),
        tuple(each for each in BoxMark if each in marks),
    )


@dataclass(frozen=True, slots=True)
class Arrow:
    """Where a gradient goes, from box to box; or a tensor."""

    tail: str
    head: str
    label: str
    form: Form  # FUNCTION: a gradient flows; OPERATION: a tensor goes; SAVED: a value is kept
    backwards: tuple[int, ...] = ()  # in which it flowed, where there are several


@dataclass(frozen=True, slots=True)
class Group:
    """Boxes that belong together: those of a module's call, a loop's turn, a double backward."""

    id: str
    title: str
    parent: str  # "" at the top
    lines: tuple[
        BoxLine, ...
    ] = ()  # the source line that its boxes share, which they do not repeat


@dataclass(frozen=True, slots=True)
class Scale:
    """What heat means: which numbers are 0 and 1."""

    title: str
    low: str
    high: str


@dataclass(frozen=True, slots=True)
class BackwardEntry:
    """One backward in the legend of a picture that has several."""

    number: int
    title: str  # "backward 1 at gan.py:9"
    call: str  # the text of the line that called it


@dataclass(frozen=True, slots=True)
class GraphScene:
    """One picture of a program's backward graph, its forward graph, or both."""

    title: str
    notes: tuple[str, ...]  # what is not shown, and how to see it
    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...]
    groups: tuple[Group, ...]  # parents before children
    color_by: ColorBy
    scale: Scale | None
    kinds: tuple[NodeKind, ...]  # those that occur, in their fixed order: for the legend
    forms: tuple[Form, ...]
    marks: tuple[BoxMark, ...]
    backwards: tuple[BackwardEntry, ...] = ()  # when there are several
    lines: tuple[BoxLine, ...] = ()  # the source line of boxes that say none
    lanes: tuple[str, ...] = ()  # threads and devices, where there is more than one
    graph: GraphOf = GraphOf.BACKWARD
    ties: tuple[Arrow, ...] = ()  # between two graphs beside each other: they move no box
