"""DOT, the language of Graphviz, from which Graphviz makes other formats."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

import graphviz

from gradscope.render.formats import Drawn, Format
from gradscope.render.html_label import box_label, caption, escaped, group_label
from gradscope.render.looks import MOST_LINES, look_of
from gradscope.render.text import visible
from gradscope.render.theme import Theme, backward_colour
from gradscope.scene.graph.picture import Arrow, Box, GraphScene, Group
from gradscope.scene.kinds import Form

FONT = "Helvetica,Arial,sans-serif"


def write(scene: GraphScene, theme: Theme) -> Drawn:
    return Drawn(source_of(scene, theme))


def source_of(scene: GraphScene, theme: Theme) -> bytes:
    """The input of Graphviz for the picture."""
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
        # Edges between functions are straight; leaves and values are next to them.
        weight = {} if arrow.head in leaves or arrow.form is Form.SAVED else {"weight": "4"}
        graph.edge(names[arrow.tail], names[arrow.head], **_arrow(arrow, theme), **weight)
    for tie in scene.ties:
        graph.edge(names[tie.tail], names[tie.head], **_tie(theme))
    return str(graph.source).encode()


FORMAT = Format(
    "dot",
    ".dot",
    "Graphviz's own language; needs no installed program",
    write,
    endings=(".gv",),
)


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
    """Write the boxes into their groups, and the groups into each other."""
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
    look = look_of(box, scene, theme)
    styles = ["rounded"] if box.form in (Form.FUNCTION, Form.OPERATION) and not look.cut else []
    styles += ["filled", *["dashed"] * look.dashed, *["diagonals"] * look.cut]
    shape = {Form.SAVED: "note", Form.FOLDED: "tab"}.get(box.form, "")
    return {
        "label": box_label(box, theme, look.fill),
        "fillcolor": look.fill,
        "color": look.line,
        "penwidth": str(look.width),
        "style": ",".join(styles),
        "tooltip": graphviz.escape("\n".join(visible(line) for line in box.tooltip)),
        **({"shape": shape} if shape else {}),
    }


def _tie(theme: Theme) -> dict[str, str]:
    look = {"style": "dashed", "arrowhead": "none", "constraint": "false"}
    return {**look, "color": theme.soft}


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
