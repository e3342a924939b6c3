"""The picture of a backward graph: the root on top, gradients flowing down to the leaves."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from gradscope.analysis.graph.graph import Graph, GraphNode, graph
from gradscope.analysis.graph.selection import select
from gradscope.analysis.program.modules import module_names
from gradscope.errors import EmptyTraceError
from gradscope.scene.choices import GroupBy
from gradscope.scene.graph.arrows import arrows, edges_not_shown
from gradscope.scene.graph.backwards import backwards_of
from gradscope.scene.graph.boxes import BoxMaker
from gradscope.scene.graph.folding import fold
from gradscope.scene.graph.grouping import call_title, groups_of, module_calls
from gradscope.scene.graph.heat import heat_of
from gradscope.scene.graph.marks import marks_of
from gradscope.scene.graph.options import GraphOptions
from gradscope.scene.graph.picture import Box, Form, GraphScene, Group, Line, Mark
from gradscope.scene.graph.placing import Placing, Use, uses_of_leaves
from gradscope.scene.graph.scope import scope_of
from gradscope.scene.kinds import Kind
from gradscope.trace.schema import Module, Node
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
    facts = graph(trace, selected.nodes, selected.tasks)
    calls = module_calls(facts.nodes)
    folding = fold(facts, calls, selected.focus, options)
    placing = Placing(options, facts, calls, folding, uses_of_leaves(facts, folding, options))
    contents = placing.contents()
    backwards = backwards_of(trace, _numbers(contents, facts))
    heat = heat_of(trace, options.color_by, facts, contents)
    maker = BoxMaker(
        options,
        facts,
        marks_of(trace, selected.focus, selected.tasks),
        heat,
        edges_not_shown(placing),
        several=backwards.several,
    )
    boxes = tuple(_boxes(placing, maker, trace))
    return GraphScene(
        title=scope.title,
        notes=(*scope.notes, *folding.notes, *backwards.notes),
        boxes=boxes,
        arrows=tuple(arrows(placing, {box.id for box in boxes}, several=backwards.several)),
        groups=_groups(placing, boxes, trace),
        color_by=options.color_by,
        scale=heat.scale,
        kinds=tuple(kind for kind in Kind if kind in _kinds(boxes)),
        forms=tuple(form for form in Form if any(box.form is form for box in boxes)),
        marks=tuple(mark for mark in Mark if any(mark in box.marks for box in boxes)),
        backwards=backwards.entries,
    )


def _numbers(contents: Mapping[str, Sequence[int]], facts: Graph) -> set[int]:
    """The numbers of the backwards that the nodes drawn took part in."""
    drawn = {node for nodes in contents.values() for node in nodes}
    return {each for node in facts.nodes if node.id in drawn for each in node.backwards}


# Boxes ---------------------------------------------------------------------------------------


def _boxes(placing: Placing, maker: BoxMaker, trace: Trace) -> Iterator[Box]:
    nodes = {node.id: node for node in placing.graph.nodes}
    uses_of: dict[int, list[Use]] = defaultdict(list)
    for (user, _), use in placing.uses.items():
        uses_of[user].append(use)
    inside: dict[str, list[GraphNode]] = defaultdict(list)
    for id, target in placing.folding.into.items():
        inside[target].append(nodes[id])
    done: set[str] = set()
    for id, target in placing.folding.into.items():
        if target and target not in done:
            done.add(target)
            yield _folded_box(placing, maker, target, inside[target], trace)
        if not target:
            for box in _box_and_neighbours(placing, maker, nodes, id, uses_of[id]):
                if box.id not in done:
                    done.add(box.id)
                    yield box


def _box_and_neighbours(
    placing: Placing,
    maker: BoxMaker,
    nodes: Mapping[int, GraphNode],
    id: int,
    uses: list[Use],
) -> Iterator[Box]:
    """A node's box, what it keeps, and the leaves beside it."""
    node = nodes[id]
    group = placing.group_of(node)
    yield maker.node(f"n{id}", node, group)
    if placing.options.saved:
        for saved in node.saved:
            yield maker.saved(f"s{saved.id}", node, saved, group)
    for use in uses:
        leaf = nodes[use.leaf].leaf
        if leaf:
            # One box for several uses stands in no module.
            shared = use.number == 0 and use.total > 1
            extra = _use_lines(use)
            backwards = nodes[use.leaf].backwards
            if use.number:
                backwards = tuple(each for each in backwards if each in node.backwards)
            place = "" if shared else group
            yield maker.leaf(use.box, nodes[use.leaf], leaf, extra, place, backwards)


def _use_lines(use: Use) -> list[Line]:
    if use.number:
        return [Line(f"use {use.number} of {use.total}")]
    return [Line(f"used {use.total} times")] if use.total > 1 else []


def _folded_box(
    placing: Placing, maker: BoxMaker, target: str, inside: list[GraphNode], trace: Trace
) -> Box:
    call = placing.calls.calls[target]
    total = sum(1 for each in placing.calls.calls.values() if each.path == call.path)
    ids = {node.id for node in inside}
    leaves = {node.id for node in placing.graph.nodes if node.leaf is not None}
    used = {edge.next for edge in placing.graph.edges if edge.node in ids and edge.next in leaves}
    group = call.parent if placing.options.group_by is GroupBy.MODULE else ""
    title = call_title(call, total, _types(trace))
    return maker.folded(f"m:{target}", title, inside, len(used), group)


# The rest ------------------------------------------------------------------------------------


def _groups(placing: Placing, boxes: tuple[Box, ...], trace: Trace) -> tuple[Group, ...]:
    if placing.options.group_by is GroupBy.NONE:
        return ()
    used = dict.fromkeys(box.group for box in boxes if box.group)
    return groups_of(placing.calls, used, _types(trace))


def _types(trace: Trace) -> dict[str, str]:
    """The type of each module, by its name; of several models, each is called one."""
    names = module_names(trace)
    return {
        names[module.id]: module.type if module.path else "model" for module in trace.rows(Module)
    }


def _kinds(boxes: tuple[Box, ...]) -> set[Kind]:
    return {box.kind for box in boxes if box.form in (Form.FUNCTION, Form.LEAF)}
