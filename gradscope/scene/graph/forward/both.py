"""A forward and a backward graph in one picture: calls and their nodes name one another."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace

from gradscope.analysis.graph.forward.calls import ForwardCalls
from gradscope.analysis.graph.forward.select import find_calls
from gradscope.analysis.identity.names import find_nodes
from gradscope.errors import UnknownNameError
from gradscope.scene.choices import GraphOf
from gradscope.scene.graph.options import GraphOptions
from gradscope.scene.graph.picture import Arrow, Box, BoxLine, GraphScene, Group, occurring
from gradscope.scene.kinds import Form
from gradscope.trace.schema import NONE
from gradscope.trace.trace import Trace

FORWARD, BACKWARD = "forward", "backward"
LINKED = (Form.OPERATION, Form.FUNCTION, Form.FOLDED)
MOST_NAMED = 2
"""So many boxes of the other graph are named."""


def half_of(options: GraphOptions) -> GraphOptions:
    """The same for one of the two graphs: each has half of the boxes."""
    return replace(options, limit=max(1, options.most // 2))


def named_in_backward(trace: Trace, options: GraphOptions) -> GraphOptions:
    """The same with nodes in place of calls that were named."""

    def named(name: str) -> str:
        try:
            find_nodes(trace, name)
        except UnknownNameError:
            nodes = trace.once(ForwardCalls).node[list(find_calls(trace, name))]
            made = nodes[nodes != NONE]
            return str(made[0]) if len(made) else name
        return name

    chosen = options.selection
    around, path_to = (each and named(each) for each in (chosen.around, chosen.path_to))
    return replace(
        options,
        selection=replace(chosen, around=around, path_to=path_to),
        expand=tuple(map(named, options.expand)),
        fold=tuple(map(named, options.fold)),
    )


def beside(forward: GraphScene, backward: GraphScene) -> GraphScene:
    """Both in one picture; ids of the one begin with f, of the other with b."""
    parts = _framed(forward, "f", FORWARD), _framed(backward, "b", BACKWARD)
    ties = tuple(_ties(*parts))
    boxes = (*_linked(*parts), *_linked(*reversed(parts)))
    kinds, forms, marks = occurring(boxes)
    return replace(
        backward,
        title=forward.title.replace("forward graph", "forward and backward graph"),
        notes=tuple(dict.fromkeys(note for part in parts for note in part.notes)),
        boxes=boxes,
        arrows=tuple(arrow for part in parts for arrow in part.arrows),
        groups=tuple(group for part in parts for group in part.groups),
        kinds=kinds,
        forms=forms,
        marks=marks,
        graph=GraphOf.BOTH,
        ties=ties,
    )


def _ties(forward: GraphScene, backward: GraphScene) -> Iterator[Arrow]:
    """From each call to the node it made, and from what that keeps to the same below the node."""
    of_node: dict[int, list[Box]] = defaultdict(list)
    for box in backward.boxes:
        for node in box.nodes if box.form in LINKED else ():
            of_node[node].append(box)
    kept = {box.id.partition(":")[2]: box for box in backward.boxes if box.form is Form.SAVED}
    for box in forward.boxes:
        if box.form in LINKED:
            for other in dict.fromkeys(each.id for node in box.nodes for each in of_node[node]):
                yield Arrow(box.id, other, "", Form.MADE)
        elif box.form is Form.SAVED and (same := kept.get(box.id.partition(":")[2])):
            yield Arrow(box.id, same.id, "", Form.MADE)


def _framed(scene: GraphScene, letter: str, title: str) -> GraphScene:
    """A scene inside a frame; what was said once above the picture stands at the frame."""

    def inside(id: str) -> str:
        return f"{letter}:{id}"

    around = Group(inside(""), title, "", scene.lines)
    return replace(
        scene,
        notes=tuple(f"{title}: {note}" for note in scene.notes),
        boxes=tuple(
            replace(box, id=inside(box.id), group=inside(box.group)) for box in scene.boxes
        ),
        arrows=tuple(
            replace(each, tail=inside(each.tail), head=inside(each.head)) for each in scene.arrows
        ),
        groups=(
            around,
            *(
                replace(each, id=inside(each.id), parent=inside(each.parent))
                for each in scene.groups
            ),
        ),
        lines=(),
    )


def _linked(scene: GraphScene, other: GraphScene) -> tuple[Box, ...]:
    """Boxes that name those of the other graph: a call its node, and a node its call."""
    of_node: dict[int, list[Box]] = defaultdict(list)
    for box in other.boxes:
        for node in box.nodes if box.form in LINKED else ():
            of_node[node].append(box)
    boxes = []
    for box in scene.boxes:
        known = box.nodes if box.form in LINKED else ()
        named = {each.id: _called(each) for node in known for each in of_node[node]}
        names = [name for name in dict.fromkeys(named.values()) if not _says(box, name)]
        more = ", …" if len(names) > MOST_NAMED else ""
        line = BoxLine(f"↔ {', '.join(names[:MOST_NAMED])}{more}")
        boxes.append(replace(box, lines=(*box.lines, line)) if names else box)
    return tuple(boxes)


def _called(box: Box) -> str:
    return f"{box.title}{box.ordinal}"


def _says(box: Box, name: str) -> bool:
    """Whether a line says so already: a call's, which node it made."""
    return any(line.text.startswith((f"made {name}", f"{name} keeps")) for line in box.lines)
