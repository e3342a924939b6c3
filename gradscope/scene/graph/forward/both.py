"""A forward and a backward graph in one picture, with links between calls and nodes."""

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
"""Largest number of boxes of the other graph that a box names."""


def half_of(options: GraphOptions) -> GraphOptions:
    """The options for one of the two graphs, with half of the boxes."""
    return replace(options, limit=max(1, options.most // 2))


def named_in_backward(trace: Trace, options: GraphOptions) -> GraphOptions:
    """The options with named calls replaced by their nodes."""

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
    """Both graphs in one picture; their ids begin with f and b."""
    parts = _framed(forward, "f", FORWARD), _framed(backward, "b", BACKWARD)
    ties = tuple(_ties(*parts))
    boxes = (*_linked(*parts), *_linked(*reversed(parts)))
    kinds, forms, marks = occurring(boxes)
    return replace(
        backward,
        title=forward.title.replace("forward graph", "forward and backward graph"),
        notes=tuple(dict.fromkeys(note for part in parts for note in part.notes)),
        boxes=boxes,
        # Calls go up as nodes go down, so that a call is beside the node it created.
        arrows=(*(replace(each, upward=True) for each in parts[0].arrows), *parts[1].arrows),
        groups=tuple(group for part in parts for group in part.groups),
        kinds=kinds,
        forms=forms,
        marks=marks,
        graph=GraphOf.BOTH,
        ties=ties,
    )


def _ties(forward: GraphScene, backward: GraphScene) -> Iterator[Arrow]:
    """Ties from calls to their nodes, and between the two boxes of a saved value."""
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
    """A scene inside a frame, which shows what is shown above the picture otherwise."""

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
    """Boxes with the names of their partners: calls name nodes, nodes name calls."""
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
    """Whether a line of the box already names that node."""
    return any(line.text.startswith((f"created {name}", f"{name} saves")) for line in box.lines)
