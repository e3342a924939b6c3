"""The arrows of a graph's picture, and how many are not drawn because their other end is not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from gradscope.analysis.graph.graph import GraphEdge, GraphNode
from gradscope.scene.graph.options import GraphOptions
from gradscope.scene.graph.picture import Arrow, Form
from gradscope.scene.graph.placing import Placing
from gradscope.scene.readable import plural, shape
from gradscope.trace.schema import NONE


def arrows(placing: Placing, drawn: set[str], *, several: bool) -> Iterator[Arrow]:
    """All arrows between boxes that are drawn; of several backwards, each with its own."""
    nodes = {node.id: node for node in placing.graph.nodes}
    outputs = Counter(edge.node for edge in placing.graph.edges)
    between: Counter[tuple[str, str]] = Counter()
    backwards: dict[tuple[str, str], set[int]] = {}
    for edge in placing.graph.edges:
        tail, head = ends(placing, edge)
        if not tail or tail == head or not {tail, head} <= drawn:
            continue
        shared = _shared(nodes[edge.node], nodes[edge.next]) if several else set()
        if tail.startswith("m:") or head.startswith("m:"):
            between[tail, head] += 1
            backwards.setdefault((tail, head), set()).update(shared)
        else:
            label = _label(placing.options, edge, nodes, outputs[edge.node])
            yield Arrow(tail, head, label, Form.FUNCTION, tuple(sorted(shared)))
    for (tail, head), number in between.items():
        label = plural(number, "gradient") if number > 1 else ""
        yield Arrow(tail, head, label, Form.FOLDED, tuple(sorted(backwards[tail, head])))
    yield from _kept(placing, drawn)


def _shared(tail: GraphNode, head: GraphNode) -> set[int]:
    """The backwards in which a gradient went from one node to the other."""
    return set(tail.backwards) & set(head.backwards)


def _kept(placing: Placing, drawn: set[str]) -> Iterator[Arrow]:
    """Dotted lines to what a node keeps: the node of a write, and with `saved`, its values."""
    for node in placing.graph.nodes:
        if node.inside != NONE and {f"n{node.inside}", f"n{node.id}"} <= drawn:
            yield Arrow(f"n{node.inside}", f"n{node.id}", "runs", Form.SAVED)
        if placing.options.saved:
            for saved in node.saved:
                if {f"n{node.id}", f"s{saved.id}"} <= drawn:
                    yield Arrow(f"n{node.id}", f"s{saved.id}", "", Form.SAVED)


def ends(placing: Placing, edge: GraphEdge) -> tuple[str, str]:
    """The boxes that an edge leads from and to; "" for one that is not drawn."""
    use = placing.uses.get((edge.node, edge.next))
    return placing.box_of(edge.node), use.box if use else placing.box_of(edge.next)


def edges_not_shown(placing: Placing) -> Counter[str]:
    """By box, how many edges lead to or come from nodes that have no box.

    A leaf in a folded module is inside its box; one that is drawn at each use says so itself.
    """
    hidden: Counter[str] = Counter()
    leaves = {node.id for node in placing.graph.nodes if node.leaf is not None}
    merged = {use.leaf: use.box for use in placing.uses.values() if not use.number}
    for node in placing.graph.nodes:
        if node.hidden_edges and node.id not in leaves:
            hidden[placing.box_of(node.id)] += node.hidden_edges
    for edge in placing.graph.edges:
        tail, head = ends(placing, edge)
        if not tail and edge.next in merged:
            head = merged[edge.next]
        if tail and not head and edge.next not in leaves:
            hidden[tail] += 1
        if head and not tail:
            hidden[head] += 1
    return hidden


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
