"""The arrows of a graph's picture, and the number of edges that lead to hidden nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from gradscope.analysis.graph.graph import Graph, GraphEdge, GraphNode
from gradscope.analysis.graph.took_part import NodesInBackwards
from gradscope.analysis.lookups import Ids
from gradscope.scene.graph.blocks.outline import NodeBlock
from gradscope.scene.graph.options import GraphOptions
from gradscope.scene.graph.picture import Arrow
from gradscope.scene.graph.placing import Placing
from gradscope.scene.kinds import Form
from gradscope.scene.readable import plural, shape
from gradscope.trace.schema import NONE

MANY = 3
"""Least number of arrows from one box to another that are drawn as one."""


def arrows(
    placing: Placing, facts: Graph, parts: NodesInBackwards, *, several: bool
) -> Iterator[Arrow]:
    """The arrows between drawn boxes, with the backwards each belongs to."""
    yield from _bundled(list(_flows(placing, facts, several=several)), placing.options)
    yield from _folded_flows(placing, parts, several=several)
    yield from _kept(placing, facts)


def _bundled(flows: Sequence[Arrow], options: GraphOptions) -> Iterator[Arrow]:
    """The arrows; many from one box to another become one, with their number."""
    of: dict[tuple[str, str, tuple[int, ...]], list[Arrow]] = {}
    for arrow in flows:
        of.setdefault((arrow.tail, arrow.head, arrow.backwards), []).append(arrow)
    for each in of.values():
        if len(each) >= MANY and not options.tensors:
            yield replace(each[0], label=plural(len(each), "gradient"))
        else:
            yield from each


def _flows(placing: Placing, facts: Graph, *, several: bool) -> Iterator[Arrow]:
    """Gradients from node to node, or to a leaf next to a node."""
    nodes = {node.id: node for node in facts.nodes}
    drawn = {placing.name(box) for box in placing.folding.boxes}
    columns = placing.columns
    outputs = Counter(columns.id[columns.tail].tolist())
    for edge in facts.edges:
        use = placing.uses.get((edge.node, edge.next))
        tail, head = f"n{edge.node}", use.box if use else f"n{edge.next}"
        if tail == head or tail not in drawn or (not use and head not in drawn):
            continue
        shared = _shared(nodes[edge.node], nodes[edge.next]) if several else ()
        label = _label(placing.options, edge, nodes, outputs[edge.node])
        yield Arrow(tail, head, label, Form.FUNCTION, shared)


def _shared(tail: GraphNode, head: GraphNode) -> tuple[int, ...]:
    """The backwards in which a gradient flowed from one node to the other."""
    return tuple(sorted(set(tail.backwards) & set(head.backwards)))


def _folded_flows(placing: Placing, parts: NodesInBackwards, *, several: bool) -> Iterator[Arrow]:
    """Gradients to or from folded boxes, one arrow for each pair of boxes."""
    columns, boxes = placing.columns, placing.folding.boxes
    tails, heads, drawn = between_folded(placing)
    between = Counter(zip(tails[drawn].tolist(), heads[drawn].tolist(), strict=True))
    flowed: dict[tuple[int, int], set[int]] = {pair: set() for pair in between}
    if several:
        for edge in np.flatnonzero(drawn).tolist():
            ends = (int(columns.id[end[edge]]) for end in (columns.tail, columns.head))
            tail, head = (parts.backwards.get(end, ()) for end in ends)
            flowed[int(tails[edge]), int(heads[edge])] |= set(tail) & set(head)
    for (tail, head), number in between.items():
        label = plural(number, "gradient") if number > 1 else ""
        yield Arrow(
            placing.name(boxes[tail]),
            placing.name(boxes[head]),
            label,
            Form.FOLDED,
            tuple(sorted(flowed[tail, head])),
        )


def between_folded(placing: Placing) -> tuple[Ids, Ids, np.ndarray]:
    """The boxes at the ends of each edge, and whether one of them is folded."""
    columns, boxes = placing.columns, placing.folding.boxes
    tails, heads = (placing.folding.box_of[end] for end in (columns.tail, columns.head))
    folded = np.array([isinstance(box, NodeBlock) for box in boxes] + [False])
    drawn = (tails >= 0) & (heads >= 0) & (tails != heads) & (folded[tails] | folded[heads])
    return tails, heads, drawn


def _kept(placing: Placing, facts: Graph) -> Iterator[Arrow]:
    """Dotted lines to nodes that a write runs and, with `saved`, to saved values."""
    drawn = {placing.name(box) for box in placing.folding.boxes}
    for node in facts.nodes:
        if node.inside != NONE and {f"n{node.inside}", f"n{node.id}"} <= drawn:
            yield Arrow(f"n{node.inside}", f"n{node.id}", "runs", Form.SAVED)
        if placing.options.saved and node.leaf is None:
            for saved in node.saved:
                yield Arrow(f"n{node.id}", f"s{saved.id}", "", Form.SAVED)


def edges_not_shown(placing: Placing) -> Counter[str]:
    """The number of edges of each box to or from nodes that have no box.

    Leaves in a folded module, and leaves drawn at each use, do not count.
    """
    columns, folding = placing.columns, placing.folding
    box = folding.box_of
    tails, heads = box[columns.tail], box[columns.head]
    to_leaf = columns.leaf[columns.head]
    found: Counter[str] = Counter()
    for number, edges in enumerate(
        _count(tails[(heads < 0) & ~to_leaf], len(folding.boxes))
        + _count(heads[tails < 0], len(folding.boxes))
        + _weights(box[~columns.leaf], columns.hidden[~columns.leaf], len(folding.boxes))
    ):
        if edges:
            found[placing.name(folding.boxes[number])] = int(edges)
    own = np.array([not isinstance(each, NodeBlock) for each in folding.boxes] + [False])
    for edge in np.flatnonzero(columns.beside[columns.head] & own[tails]).tolist():
        ends = int(columns.id[columns.tail[edge]]), int(columns.id[columns.head[edge]])
        if ends not in placing.uses:
            found[f"{placing.letter}{ends[0]}"] += 1
    merged = {use.leaf: use.box for use in placing.uses.values() if not use.number}
    for leaf in columns.id[columns.head[to_leaf & (tails < 0)]].tolist():
        if leaf in merged:
            found[merged[leaf]] += 1
    return found


def _count(boxes: Ids, number: int) -> Ids:
    return np.bincount(boxes[boxes >= 0], minlength=number)


def _weights(boxes: Ids, weights: Ids, number: int) -> Ids:
    known = boxes >= 0
    return np.bincount(boxes[known], weights[known], minlength=number).astype(np.int64)


def _label(
    options: GraphOptions, edge: GraphEdge, nodes: Mapping[int, GraphNode], outputs: int
) -> str:
    """The output and input of an edge, if there are several; the shape, where it changes."""
    parts = []
    if outputs > 1 or edge.index:
        parts.append(f"out {edge.index}")
    if edge.input_nr or len(nodes[edge.next].inputs) > 1:
        parts.append(f"in {edge.input_nr}")
    taken = {meta.shape for meta in nodes[edge.node].inputs if meta}
    if edge.meta and (options.tensors or edge.meta.shape not in taken):
        parts.append(shape(edge.meta.shape))
    return " · ".join(parts)
