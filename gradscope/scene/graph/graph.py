"""The picture of a backward graph: the root on top, gradients flowing down to the leaves."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from gradscope.analysis.columns import Ids
from gradscope.analysis.graph.columns import GraphColumns, graph_columns
from gradscope.analysis.graph.graph import GraphNode, graph
from gradscope.analysis.graph.selection import Selected, select
from gradscope.analysis.graph.took_part import Parts, took_part
from gradscope.analysis.identity.names import find_nodes, node_names
from gradscope.errors import EmptyTraceError
from gradscope.scene.graph.arrows import arrows, edges_not_shown
from gradscope.scene.graph.backwards import backwards_of
from gradscope.scene.graph.blocks.folding import Folder, Wishes
from gradscope.scene.graph.blocks.outline import Block, Made, Outline
from gradscope.scene.graph.blocks.titles import Titles, each_turn
from gradscope.scene.graph.boxes import BoxMaker, Inside
from gradscope.scene.graph.common_lines import shared_lines, without_lone_frames
from gradscope.scene.graph.heat import heat_of
from gradscope.scene.graph.lanes import Lanes
from gradscope.scene.graph.marks import Marks, marks_of
from gradscope.scene.graph.options import GraphOptions
from gradscope.scene.graph.picture import Box, Form, GraphScene, Group, Line, Mark
from gradscope.scene.graph.placing import Placing, Use
from gradscope.scene.graph.scope import scope_of
from gradscope.scene.kinds import Kind
from gradscope.trace.schema import Node
from gradscope.trace.trace import Trace


def graph_scene(trace: Trace, options: GraphOptions | None = None) -> GraphScene:
    """The picture of a trace's graph, or of the part that the options choose."""
    options = options or GraphOptions()
    if not len(trace.table(Node)):
        raise EmptyTraceError(
            "this trace holds no backward nodes: nothing that was recorded required a gradient"
        )
    scope = scope_of(trace, options)
    selected = select(trace, scope.selection)
    columns = graph_columns(trace, selected)
    parts = took_part(trace, selected.tasks)
    marks = marks_of(trace, selected.focus, selected.tasks, parts)
    outline = Outline(trace, columns, loops=not options.everything)
    folder = Folder(columns, outline, _wishes(trace, options, columns, selected, marks))
    placing = Placing(options, columns, outline, folder, folder.fold())
    contents = placing.contents()
    drawn_nodes = (node for nodes in contents.values() for node in nodes)
    numbers = {each for node in drawn_nodes for each in parts.backwards.get(node, ())}
    backwards = backwards_of(trace, numbers)
    heat = heat_of(trace, options.color_by, columns, contents)
    hidden = edges_not_shown(placing)
    names = node_names(trace)
    lanes = Lanes(trace, columns, selected.tasks)
    maker = BoxMaker(options, names, marks, heat, hidden, lanes, several=backwards.several)
    facts = graph(trace, placing.nodes_drawn(), selected.tasks, parts)
    titles = Titles(trace, columns, outline, folder.spent)
    draw = _Boxes(
        placing, maker, {node.id: node for node in facts.nodes}, titles, parts, folder.spent
    )
    drawn = tuple(draw.all())
    groups = tuple(_groups(drawn, placing.open_blocks, titles))
    boxes, framed, lines = shared_lines(*without_lone_frames(drawn, groups))
    return GraphScene(
        title=scope.title,
        notes=(*scope.notes, *placing.folding.notes, *backwards.notes),
        boxes=boxes,
        arrows=tuple(arrows(placing, facts, parts, several=backwards.several)),
        groups=framed,
        color_by=options.color_by,
        scale=heat.scale,
        kinds=tuple(kind for kind in Kind if kind in _kinds(boxes)),
        forms=tuple(form for form in Form if any(box.form is form for box in boxes)),
        marks=tuple(mark for mark in Mark if any(mark in box.marks for box in boxes)),
        backwards=backwards.entries,
        lines=lines,
        lanes=lanes.titles,
    )


def _wishes(
    trace: Trace, options: GraphOptions, columns: GraphColumns, selected: Selected, marks: Marks
) -> Wishes:
    """What was asked for by name, by places. Raises UnknownNameError for what is not there."""

    def places(name: str) -> Ids:
        return columns.places(find_nodes(trace, name))

    return Wishes(
        focus=columns.places(selected.focus),
        findings=columns.places(marks.findings),
        expand=tuple(map(places, options.expand)),
        fold=tuple(map(places, options.fold)),
        limit=options.most,
        everything=options.everything,
        merge_leaves=options.merge_leaves,
    )


def _groups(boxes: Iterable[Box], blocks: Mapping[str, Block], titles: Titles) -> Iterator[Group]:
    """The frames that boxes stand in, with those around them, parents first."""
    done: set[str] = set()
    for box in boxes:
        around: list[Block] = []
        id = box.group
        while id and id not in done:
            done.add(id)
            around.append(blocks[id])
            parent = blocks[id].parent
            id = parent.id if parent else ""
        for block in reversed(around):
            yield Group(block.id, titles.title(block), block.parent.id if block.parent else "")


class _Boxes:
    """All boxes of a picture, in the graph's order."""

    def __init__(
        self,
        placing: Placing,
        maker: BoxMaker,
        nodes: Mapping[int, GraphNode],
        titles: Titles,
        parts: Parts,
        spent: Ids,
    ) -> None:
        self._placing = placing
        self._maker = maker
        self._nodes = nodes
        self._titles = titles
        self._parts = parts
        self._spent = spent
        self._uses_of: dict[int, list[Use]] = defaultdict(list)
        for (user, _), use in placing.uses.items():
            self._uses_of[user].append(use)

    def all(self) -> Iterator[Box]:
        done: set[str] = set()
        for part in self._placing.folding.boxes:
            group = self._placing.group_of(part)
            if isinstance(part, Block):
                yield self._folded(part, group)
                continue
            node = self._nodes[int(self._placing.columns.id[part])]
            for box in self._node_and_neighbours(node, group):
                if box.id not in done:
                    done.add(box.id)
                    yield box

    def _node_and_neighbours(self, node: GraphNode, group: str) -> Iterator[Box]:
        """A node's box, what it keeps, and the leaves beside it."""
        yield self._maker.node(f"n{node.id}", node, group)
        if self._placing.options.saved:
            for saved in node.saved:
                yield self._maker.saved(f"s{saved.id}", node, saved, group)
        for use in self._uses_of[node.id]:
            user = self._nodes[use.leaf]
            if user.leaf:
                # One box for several uses stands in no module.
                shared = use.number == 0 and use.total > 1
                backwards = user.backwards
                if use.number:
                    backwards = tuple(each for each in backwards if each in node.backwards)
                yield self._maker.leaf(
                    use.box, user, user.leaf, _use_lines(use), "" if shared else group, backwards
                )

    def _folded(self, block: Block, group: str) -> Box:
        nodes = self._placing.nodes_in(block)
        turns = block.made in (Made.LOOP, Made.TURNS)
        loop = block.parent if block.made is Made.TURNS else block
        inside = Inside(
            nodes=nodes,
            leaves=self._placing.leaves_in(block),
            own_ns=int(self._spent[block.end] - self._spent[block.first]),
            backwards=sorted({b for node in nodes for b in self._parts.backwards.get(node, ())}),
            each=each_turn(loop) if turns and loop else "",
            lines=self._titles.facts(block),
        )
        return self._maker.folded(
            self._placing.name(block), self._titles.title(block), inside, group
        )


def _use_lines(use: Use) -> list[Line]:
    if use.number:
        return [Line(f"use {use.number} of {use.total}")]
    return [Line(f"used {use.total} times")] if use.total > 1 else []


def _kinds(boxes: tuple[Box, ...]) -> set[Kind]:
    return {box.kind for box in boxes if box.form in (Form.FUNCTION, Form.LEAF)}
