"""The picture of a backward graph: the root on top, gradients flowing down to the leaves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

from gradscope.analysis.graph.columns import graph_columns
from gradscope.analysis.graph.graph import GraphNode, graph
from gradscope.analysis.graph.selection import select
from gradscope.analysis.graph.took_part import NodesInBackwards, took_part
from gradscope.analysis.identity.names import find_nodes, node_names
from gradscope.analysis.lookups import Ids
from gradscope.errors import EmptyTraceError, UsageError
from gradscope.scene.choices import ColorBy, GraphOf
from gradscope.scene.graph.arrows import arrows, edges_not_shown
from gradscope.scene.graph.backwards import backwards_of
from gradscope.scene.graph.blocks.drawn import boxes_of, folded_box, use_lines
from gradscope.scene.graph.blocks.folding import Folder, wishes
from gradscope.scene.graph.blocks.outline import NodeBlock, Outline
from gradscope.scene.graph.blocks.regions import with_insides
from gradscope.scene.graph.blocks.structures import Structures
from gradscope.scene.graph.blocks.titles import Titles, frames
from gradscope.scene.graph.boxes import BoxMaker
from gradscope.scene.graph.common_lines import shared_lines, without_lone_frames
from gradscope.scene.graph.forward.both import beside, half_of, named_in_backward
from gradscope.scene.graph.forward.plan import plan_scene
from gradscope.scene.graph.forward.scene import forward_scene
from gradscope.scene.graph.heat import heat_of
from gradscope.scene.graph.lanes import lanes_of_nodes
from gradscope.scene.graph.marks import marks_of
from gradscope.scene.graph.options import GraphOptions
from gradscope.scene.graph.picture import Box, GraphScene, StructureEntry, occurring
from gradscope.scene.graph.placing import Placing
from gradscope.scene.graph.scope import scope_of
from gradscope.trace.schema import Node, Phase
from gradscope.trace.trace import Trace


def graph_scene(trace: Trace, options: GraphOptions | None = None) -> GraphScene:
    """The picture of the graph, or part of a graph, that the options select.

    For a program without nodes this is the forward graph, unless another one is requested.
    """
    options = options or GraphOptions()
    if options.color_by is ColorBy.STRUCTURE and options.graph in (GraphOf.BOTH, GraphOf.PLAN):
        raise UsageError(
            "--color structure colors one graph: use --graph backward or --graph forward"
        )
    match options.graph:
        case GraphOf.FORWARD:
            return forward_scene(trace, options)
        case GraphOf.PLAN:
            return plan_scene(trace, options)
        case GraphOf.BOTH:
            half = half_of(options)
            backward = backward_scene(trace, named_in_backward(trace, half))
            return beside(forward_scene(trace, half), backward)
        case None if not len(trace.table(Node)):
            try:
                scene = forward_scene(trace, options)
            except EmptyTraceError as error:
                raise EmptyTraceError(f"{NO_GRADIENT}, and {error}") from None
            return replace(scene, notes=(f"{NO_GRADIENT}: this is the forward graph", *scene.notes))
    return backward_scene(trace, options)


NO_GRADIENT = "nothing in the recording required a gradient"


def backward_scene(trace: Trace, options: GraphOptions) -> GraphScene:
    """The picture of a trace's backward graph, or of the part that the options select."""
    if not len(trace.table(Node)):
        raise EmptyTraceError(
            f"this trace holds no backward nodes: {NO_GRADIENT}; --graph forward draws what was "
            "computed"
        )
    scope = scope_of(trace, options)
    selected = select(trace, scope.selection)
    columns = graph_columns(trace, selected)
    parts = took_part(trace, selected.tasks)
    marks = marks_of(trace, selected.focus, selected.tasks, parts)
    outline = Outline(trace, columns, loops=not options.everything)
    asked = wishes(options, columns, selected.focus, marks.findings, partial(find_nodes, trace))
    folder = Folder(columns, outline, asked)
    placing = Placing(options, columns, outline, folder, folder.fold())
    contents = placing.contents()
    drawn_nodes = (node for nodes in contents.values() for node in nodes)
    numbers = {each for node in drawn_nodes for each in parts.backwards.get(node, ())}
    backwards = backwards_of(trace, numbers)
    heat = heat_of(trace, options.color_by, columns, contents)
    hidden = edges_not_shown(placing)
    names = node_names(trace)
    lanes = lanes_of_nodes(trace, columns, selected.tasks)
    maker = BoxMaker(options, names, marks, heat, hidden, lanes, several=backwards.several)
    facts = graph(trace, placing.nodes_drawn(), selected.tasks, parts)
    titles = Titles(trace, columns, outline, folder.spent)
    draw = _Boxes(
        placing, maker, {node.id: node for node in facts.nodes}, titles, parts, folder.spent
    )
    drawn = tuple(draw.all())
    groups = tuple(frames(drawn, placing.open_blocks, titles))
    boxes, framed, lines = shared_lines(*without_lone_frames(drawn, groups))
    structures: tuple[StructureEntry, ...] = ()
    if options.color_by is ColorBy.STRUCTURE:
        found = Structures(outline, columns)
        boxes, framed, structures = found.painted(drawn, boxes, framed, placing)
    kinds, forms, seen = occurring(boxes)
    scene = GraphScene(
        title=scope.title,
        notes=(*scope.notes, *placing.folding.notes, *backwards.notes),
        boxes=boxes,
        arrows=tuple(arrows(placing, facts, parts, several=backwards.several)),
        groups=framed,
        color_by=options.color_by,
        scale=heat.scale,
        kinds=kinds,
        forms=forms,
        marks=seen,
        backwards=backwards.entries,
        lines=lines,
        lanes=lanes.titles,
        structures=structures,
    )
    return with_insides(trace, scene, Phase.BACKWARD, options)


@dataclass(frozen=True, slots=True)
class _Boxes:
    """All boxes of a picture, in the graph's order."""

    placing: Placing
    maker: BoxMaker
    nodes: Mapping[int, GraphNode]
    titles: Titles
    parts: NodesInBackwards
    spent: Ids

    def all(self) -> Iterator[Box]:
        return boxes_of(self.placing, self._node_and_neighbours, self._folded)

    def _node_and_neighbours(self, id: int, group: str) -> Iterator[Box]:
        """The box of a node, of its saved values, and of the leaves next to it."""
        node = self.nodes[id]
        yield self.maker.node(f"n{id}", node, group)
        if self.placing.options.saved:
            for saved in node.saved:
                yield self.maker.saved(saved, node.unique, id, group)
        for use in self.placing.uses_of.get(id, ()):
            user = self.nodes[use.leaf]
            if user.leaf:
                # A leaf with one box for several uses belongs to no module.
                shared = use.number == 0 and use.total > 1
                backwards = user.backwards
                if use.number:
                    backwards = tuple(each for each in backwards if each in node.backwards)
                yield self.maker.leaf(
                    use.box, user, user.leaf, use_lines(use), "" if shared else group, backwards
                )

    def _folded(self, block: NodeBlock, group: str) -> Box:
        return folded_box(
            block, group, self.placing, self.maker, self.titles, self.spent,
            lambda node: self.parts.backwards.get(node, ()),
        )  # fmt: skip
