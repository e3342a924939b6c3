"""The elements of a picture of a graph. Formats turn them into text unchanged."""

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
    SITE = "site"  # the location of a source line
    CODE = "code"  # the text of a source line
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
    heat: float | None  # colour value from 0 to 1; None where there is no value
    group: str  # "" outside of all groups
    tooltip: tuple[str, ...]  # lines
    nodes: tuple[int, ...]  # ids of its nodes in the trace
    lane: int = NONE  # the lane in which it ran, if there are several
    calls: tuple[int, ...] = ()  # ids of its forward calls in the trace
    structure: int = NONE  # the number of its structure, if colors stand for structures


def occurring(
    boxes: Sequence[Box],
) -> tuple[tuple[NodeKind, ...], tuple[Form, ...], tuple[BoxMark, ...]]:
    """The kinds, forms and marks of boxes, in a fixed order, for the legend."""
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
    """An arrow from box to box: a gradient or a tensor."""

    tail: str
    head: str
    label: str
    form: Form  # FUNCTION: a gradient; OPERATION: a tensor; SAVED: a saved value
    backwards: tuple[int, ...] = ()  # of the gradient, if there are several
    upward: bool = False  # drawn from the bottom to the top, where the format can do so


@dataclass(frozen=True, slots=True)
class Group:
    """Boxes that belong together: a call of a module, an iteration, a double backward."""

    id: str
    title: str
    parent: str  # "" at the top
    lines: tuple[
        BoxLine, ...
    ] = ()  # the source line that its boxes share, which they do not repeat
    structure: int = NONE


@dataclass(frozen=True, slots=True)
class Scale:
    """The colour scale: the values at 0 and 1."""

    title: str
    low: str
    high: str


@dataclass(frozen=True, slots=True)
class BackwardEntry:
    """One backward in the legend of a picture that has several."""

    number: int
    title: str  # "backward 1 at gan.py:9"; of several at once, "backwards 1 to 8 at maml.py:30"
    call: str  # the text of the line that called it
    rank: int = NONE  # of the process, in a merged trace
    others: tuple[int, ...] = ()  # the numbers after the first, if the same line called several


@dataclass(frozen=True, slots=True)
class StructureEntry:
    """One structure in the legend of a picture that is colored by structure."""

    number: int
    words: str  # "A · Block ×12": how many there are in the graph


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
    kinds: tuple[NodeKind, ...]  # those that occur, in a fixed order, for the legend
    forms: tuple[Form, ...]
    marks: tuple[BoxMark, ...]
    backwards: tuple[BackwardEntry, ...] = ()  # when there are several
    lines: tuple[BoxLine, ...] = ()  # the source line of boxes that show none
    lanes: tuple[str, ...] = ()  # threads and devices, where there is more than one
    graph: GraphOf = GraphOf.BACKWARD
    structures: tuple[StructureEntry, ...] = ()
    ties: tuple[Arrow, ...] = ()  # between two graphs side by side; they do not affect the layout
