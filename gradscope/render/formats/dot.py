"""DOT, the language of Graphviz: every other picture format is made from it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

import graphviz

from gradscope.render.formats import Drawn, Format
from gradscope.render.html_label import box_label, caption, escaped, group_label
from gradscope.render.text import visible
from gradscope.render.theme import ALARMS, BIRTHS, Paint, Theme, backward_colour, heat_colour
from gradscope.scene.choices import ColorBy
from gradscope.scene.graph.picture import Arrow, Box, Form, GraphScene, Group, Mark

FONT = "Helvetica,Arial,sans-serif"
MOST_LINES = 3
"""How many backwards an arrow has a line of its own colour for."""


def write(scene: GraphScene, theme: Theme) -> Drawn:
    """The picture as DOT source."""
    return Drawn(source_of(scene, theme))


def source_of(scene: GraphScene, theme: Theme) -> bytes:
    """What Graphviz reads, to draw the picture."""
    names = {box.id: f"b{number}" for number, box in enumerate(scene.boxes)}
    graph = graphviz.Digraph(
        "gradscope",
        graph_attr=_page(scene, theme),
        node_attr=_boxes(theme),
        edge_attr=_edges(theme),
    )
    _fill(graph, scene, theme, names)
    leaves = {box.id for box in scene.boxes if box.form is Form.LEAF}
    for arrow in scene.arrows:
        # What goes on from function to function pulls straight; leaves and values stand aside.
        weight = {} if arrow.head in leaves or arrow.form is Form.SAVED else {"weight": "4"}
        graph.edge(names[arrow.tail], names[arrow.head], **_arrow(arrow, theme), **weight)
    return str(graph.source).encode()


FORMAT = Format("dot", ".dot", "Graphviz's own language; needs no installed program", write)


def _page(scene: GraphScene, theme: Theme) -> dict[str, str]:
    return {
        "bgcolor": theme.page,
        "fontname": FONT,
        "fontcolor": theme.ink,
        "label": caption(scene, theme),
        "labelloc": "t",
        "labeljust": "l",
        "nodesep": "0.28",
        "ranksep": "0.42",
        "pad": "0.3",
        "tooltip": graphviz.escape(visible(scene.title)),
    }


def _boxes(theme: Theme) -> dict[str, str]:
    return {
        "fontname": FONT,
        "fontsize": "11",
        "fontcolor": theme.ink,
        "shape": "box",
        "style": "rounded,filled",
        "margin": "0.12,0.07",
        "height": "0.3",
        "penwidth": "1.1",
    }


def _edges(theme: Theme) -> dict[str, str]:
    return {
        "fontname": FONT,
        "fontsize": "9",
        "fontcolor": theme.soft,
        "color": theme.arrow,
        "arrowsize": "0.65",
        "penwidth": "1.1",
    }


def _fill(
    graph: graphviz.Digraph, scene: GraphScene, theme: Theme, names: Mapping[str, str]
) -> None:
    """Put the boxes into their groups, and the groups into each other."""
    inside: dict[str, list[Box]] = defaultdict(list)
    for box in scene.boxes:
        inside[box.group].append(box)
    children: dict[str, list[Group]] = defaultdict(list)
    for group in scene.groups:
        children[group.parent].append(group)
    numbers = {group.id: number for number, group in enumerate(scene.groups)}
    clusters: dict[str, graphviz.Digraph] = {"": graph}
    order = list(_parents_first(children))
    for group in order:
        clusters[group.id] = graphviz.Digraph(
            f"cluster_{numbers[group.id]}", graph_attr=_cluster(group, theme)
        )
    for id, cluster in clusters.items():
        for box in inside[id]:
            cluster.node(names[box.id], **_box(box, scene, theme))
    for group in reversed(order):
        clusters[group.parent].subgraph(clusters[group.id])


def _parents_first(children: Mapping[str, list[Group]]) -> Iterator[Group]:
    waiting = list(reversed(children.get("", [])))
    while waiting:
        group = waiting.pop()
        yield group
        waiting.extend(reversed(children.get(group.id, [])))


def _cluster(group: Group, theme: Theme) -> dict[str, str]:
    return {
        "label": group_label(group, theme),
        "labeljust": "l",
        "labelloc": "t",
        "fontname": FONT,
        "fontsize": "10",
        "fontcolor": theme.soft,
        "style": "rounded,filled",
        "fillcolor": theme.group.fill,
        "color": theme.group.line,
        "penwidth": "1",
        "margin": "10",
        "tooltip": graphviz.escape(visible(group.title)),
    }


def _box(box: Box, scene: GraphScene, theme: Theme) -> dict[str, str]:
    paint = _paint(box, scene, theme)
    attributes = {
        "label": box_label(box, theme),
        "fillcolor": paint.fill,
        "color": paint.line,
        "tooltip": graphviz.escape("\n".join(visible(line) for line in box.tooltip)),
    }
    return attributes | _outline(box) | _emphasis(box, theme)


def _paint(box: Box, scene: GraphScene, theme: Theme) -> Paint:
    if box.form in theme.forms and box.heat is None:
        return theme.forms[box.form]
    if scene.color_by is ColorBy.KIND:
        return theme.kinds[box.kind]
    if box.heat is None:
        return theme.unknown
    return Paint(heat_colour(theme, box.heat), theme.kinds[box.kind].line)


def _outline(box: Box) -> dict[str, str]:
    match box.form:
        case Form.LEAF:
            return {"style": "filled"}  # square corners: nothing is computed here
        case Form.SAVED:
            return {"shape": "note", "style": "filled"}
        case Form.FOLDED:
            return {"shape": "tab", "style": "filled", "penwidth": "1.4"}
        case Form.FUNCTION:
            return {}


def _emphasis(box: Box, theme: Theme) -> dict[str, str]:
    """Alarms have an outline of their own, so that they are seen without colours too."""
    marks = set(box.marks)
    emphasis: dict[str, str] = {}
    if Mark.NOT_RUN in marks:
        emphasis |= {
            "style": "rounded,filled,dashed" if box.form is Form.FUNCTION else "filled,dashed"
        }
    if Mark.FOCUS in marks:
        emphasis |= {"color": theme.accent, "penwidth": "2.6"}
    if marks & ALARMS:
        emphasis |= {"color": theme.alarm, "penwidth": "1.8"}
    if marks & BIRTHS:
        emphasis |= {
            "style": "filled,diagonals",
            "penwidth": "2",
            "fillcolor": theme.alarm_fill,
        }
    return emphasis


def _arrow(arrow: Arrow, theme: Theme) -> dict[str, str]:
    attributes = {}
    if arrow.backwards:  # parallel lines, one for each
        colours = [backward_colour(theme, number) for number in arrow.backwards[:MOST_LINES]]
        attributes["color"] = ":".join(colours)
    if arrow.label:
        attributes["label"] = f"<{escaped(f' {arrow.label} ')}>"
    if arrow.form is Form.SAVED:
        attributes |= {"style": "dotted", "arrowhead": "none", "color": theme.soft}
    if arrow.form is Form.FOLDED:
        attributes |= {"penwidth": "1.8"}
    return attributes
