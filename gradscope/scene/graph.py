"""The picture of a backward graph: the root on top, gradients flowing down to the leaves."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gradscope.analysis.graph import Graph, GraphEdge, GraphNode, graph
from gradscope.analysis.selection import select
from gradscope.errors import EmptyTraceError
from gradscope.scene.boxes import BoxMaker
from gradscope.scene.choices import GroupBy
from gradscope.scene.folding import Folding, fold
from gradscope.scene.grouping import Calls, call_title, groups_of, module_calls
from gradscope.scene.heat import heat_of
from gradscope.scene.kinds import Kind
from gradscope.scene.marks import marks_of
from gradscope.scene.options import GraphOptions
from gradscope.scene.picture import Arrow, Box, Form, GraphScene, Group, Line, Mark
from gradscope.scene.scope import scope_of
from gradscope.scene.words import plural, shape
from gradscope.trace.run import Trace
from gradscope.trace.schema import Module, Node


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
    heat = heat_of(trace, options.color_by, facts)
    layout = _Layout(options, facts, calls, folding, _uses(facts, folding, options))
    marks = marks_of(trace, selected.focus, selected.tasks)
    boxes = tuple(_boxes(layout, BoxMaker(options, facts, marks, heat), trace))
    return GraphScene(
        title=scope.title,
        notes=(*scope.notes, *folding.notes),
        boxes=boxes,
        arrows=tuple(_arrows(layout, {box.id for box in boxes})),
        groups=_groups(layout, boxes, trace),
        color_by=options.color_by,
        scale=heat.scale,
        kinds=tuple(kind for kind in Kind if kind in _kinds(boxes)),
        forms=tuple(form for form in Form if any(box.form is form for box in boxes)),
        marks=tuple(mark for mark in Mark if any(mark in box.marks for box in boxes)),
    )


@dataclass(frozen=True, slots=True)
class _Use:
    """One box of a leaf, beside a node that sends it a gradient."""

    box: str
    leaf: int
    number: int  # from 1; 0 when one box stands for all uses
    total: int


@dataclass(frozen=True, slots=True)
class _Layout:
    """Everything that says which box stands where."""

    options: GraphOptions
    graph: Graph
    calls: Calls
    folding: Folding
    uses: Mapping[tuple[int, int], _Use]  # by node and leaf; only those that are drawn

    def box_of(self, node: int) -> str:
        target = self.folding.into.get(node)
        if target is None:
            return ""
        return f"m:{target}" if target else f"n{node}"

    def group_of(self, node: GraphNode) -> str:
        if self.options.group_by is GroupBy.NONE:
            return ""
        chain = self.calls.chains.get(node.id, ())
        return chain[-1] if chain else self.calls.tops.get(node.id, "")


def _uses(facts: Graph, folding: Folding, options: GraphOptions) -> dict[tuple[int, int], _Use]:
    leaves = {node.id for node in facts.nodes if node.leaf is not None} - folding.into.keys()
    pairs = dict.fromkeys((edge.node, edge.next) for edge in facts.edges if edge.next in leaves)
    total = Counter(leaf for _, leaf in pairs)
    seen: Counter[int] = Counter()
    uses = {}
    for node, leaf in pairs:
        seen[leaf] += 1
        if folding.into.get(node) != "":
            continue
        if options.merge_leaves or total[leaf] == 1:
            uses[node, leaf] = _Use(f"n{leaf}", leaf, 0, total[leaf])
        else:
            number = seen[leaf]
            uses[node, leaf] = _Use(f"n{leaf}u{number}", leaf, number, total[leaf])
    return uses


# Boxes ---------------------------------------------------------------------------------------


def _boxes(layout: _Layout, maker: BoxMaker, trace: Trace) -> Iterator[Box]:
    nodes = {node.id: node for node in layout.graph.nodes}
    uses_of: dict[int, list[_Use]] = defaultdict(list)
    for (user, _), use in layout.uses.items():
        uses_of[user].append(use)
    inside: dict[str, list[GraphNode]] = defaultdict(list)
    for id, target in layout.folding.into.items():
        inside[target].append(nodes[id])
    done: set[str] = set()
    for id, target in layout.folding.into.items():
        if target and target not in done:
            done.add(target)
            yield _folded_box(layout, maker, target, inside[target], trace)
        if not target:
            for box in _box_and_neighbours(layout, maker, nodes, id, uses_of[id]):
                if box.id not in done:
                    done.add(box.id)
                    yield box


def _box_and_neighbours(
    layout: _Layout,
    maker: BoxMaker,
    nodes: Mapping[int, GraphNode],
    id: int,
    uses: list[_Use],
) -> Iterator[Box]:
    """A node's box, what it keeps, and the leaves beside it."""
    node = nodes[id]
    group = layout.group_of(node)
    yield maker.node(f"n{id}", node, group)
    if layout.options.saved:
        for saved in node.saved:
            yield maker.saved(f"s{saved.id}", node, saved, group)
    for use in uses:
        leaf = nodes[use.leaf].leaf
        if leaf:
            # One box for several uses stands in no module.
            shared = use.number == 0 and use.total > 1
            extra = _use_lines(use)
            yield maker.leaf(use.box, nodes[use.leaf], leaf, extra, "" if shared else group)


def _use_lines(use: _Use) -> list[Line]:
    if use.number:
        return [Line(f"use {use.number} of {use.total}")]
    return [Line(f"used {use.total} times")] if use.total > 1 else []


def _folded_box(
    layout: _Layout, maker: BoxMaker, target: str, inside: list[GraphNode], trace: Trace
) -> Box:
    call = layout.calls.calls[target]
    total = sum(1 for each in layout.calls.calls.values() if each.path == call.path)
    ids = {node.id for node in inside}
    leaves = {node.id for node in layout.graph.nodes if node.leaf is not None}
    used = {edge.next for edge in layout.graph.edges if edge.node in ids and edge.next in leaves}
    group = call.parent if layout.options.group_by is GroupBy.MODULE else ""
    title = call_title(call, total, _types(trace))
    return maker.folded(f"m:{target}", title, inside, len(used), group)


# Arrows --------------------------------------------------------------------------------------


def _arrows(layout: _Layout, drawn: set[str]) -> Iterator[Arrow]:
    nodes = {node.id: node for node in layout.graph.nodes}
    outputs = Counter(edge.node for edge in layout.graph.edges)
    between: Counter[tuple[str, str]] = Counter()
    for edge in layout.graph.edges:
        tail = layout.box_of(edge.node)
        use = layout.uses.get((edge.node, edge.next))
        head = use.box if use else layout.box_of(edge.next)
        if not tail or tail == head or not {tail, head} <= drawn:
            continue
        if tail.startswith("m:") or head.startswith("m:"):
            between[tail, head] += 1
        else:
            label = _label(layout.options, edge, nodes, outputs[edge.node])
            yield Arrow(tail, head, label, Form.FUNCTION)
    for (tail, head), number in between.items():
        label = plural(number, "gradient") if number > 1 else ""
        yield Arrow(tail, head, label, Form.FOLDED)
    if layout.options.saved:
        for node in layout.graph.nodes:
            for saved in node.saved:
                if {f"n{node.id}", f"s{saved.id}"} <= drawn:
                    yield Arrow(f"n{node.id}", f"s{saved.id}", "", Form.SAVED)


def _label(
    options: GraphOptions, edge: GraphEdge, nodes: Mapping[int, GraphNode], outputs: int
) -> str:
    """Which output and input, where there are several; the shape, where it changes."""
    parts = []
    if outputs > 1 or edge.index:
        parts.append(f"out {edge.index}")
    if edge.input_nr or len(nodes[edge.next].inputs) > 1:
        parts.append(f"in {edge.input_nr}")
    taken = {meta.shape for meta in nodes[edge.node].inputs if meta}
    if edge.meta and (options.tensors or edge.meta.shape not in taken):
        parts.append(shape(edge.meta.shape))
    return " · ".join(parts)


# The rest ------------------------------------------------------------------------------------


def _groups(layout: _Layout, boxes: tuple[Box, ...], trace: Trace) -> tuple[Group, ...]:
    if layout.options.group_by is GroupBy.NONE:
        return ()
    used = dict.fromkeys(box.group for box in boxes if box.group)
    return groups_of(layout.calls, used, _types(trace))


def _types(trace: Trace) -> dict[str, str]:
    return {module.path: module.type for module in trace.rows(Module)}


def _kinds(boxes: tuple[Box, ...]) -> set[Kind]:
    return {box.kind for box in boxes if box.form in (Form.FUNCTION, Form.LEAF)}
