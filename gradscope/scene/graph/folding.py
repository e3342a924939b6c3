"""Which nodes become a box, which are folded into their module's, and which are left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gradscope.analysis.graph.graph import Graph, GraphNode
from gradscope.scene.graph.grouping import Calls
from gradscope.scene.graph.options import GraphOptions
from gradscope.scene.readable import count, plural


@dataclass(frozen=True, slots=True)
class Folding:
    """What stands for each node that is shown: "" is a box of its own, else the call's box.

    Leaves are not in here: they are drawn beside the boxes that use them.
    """

    into: Mapping[int, str]
    notes: tuple[str, ...]


def fold(graph: Graph, calls: Calls, focus: Iterable[int], options: GraphOptions) -> Folding:
    """Fold modules from the innermost outwards until at most `limit` boxes are left, then cut."""
    beside = leaves_beside(graph)
    leaf_boxes = _leaf_boxes(graph, beside, merge_leaves=options.merge_leaves)
    nodes = [node for node in graph.nodes if node.id not in beside]
    into = {node.id: "" for node in nodes}
    if options.everything:
        return Folding(into, ())
    open_nodes = frozenset(focus)
    deepest = max((len(chain) for chain in calls.chains.values()), default=0)
    for depth in range(deepest, 0, -1):
        if _box_count(into, leaf_boxes) <= options.limit:
            break
        into = _folded_at(nodes, calls, depth, options.expand, open_nodes)
    kept = _first(into, leaf_boxes, options.limit)
    return Folding(kept, tuple(_notes(graph, kept, cut=len(kept) < len(into))))


def leaves_beside(graph: Graph) -> frozenset[int]:
    """The leaves that some node of the graph uses: they are drawn beside it."""
    leaves = {node.id for node in graph.nodes if node.leaf is not None}
    return frozenset(edge.next for edge in graph.edges if edge.next in leaves)


def _leaf_boxes(graph: Graph, beside: frozenset[int], *, merge_leaves: bool) -> Counter[int]:
    """How many boxes of leaves stand beside each node."""
    pairs = dict.fromkeys((edge.node, edge.next) for edge in graph.edges if edge.next in beside)
    if merge_leaves:
        return Counter({leaf: node for node, leaf in pairs}.values())
    return Counter(node for node, _ in pairs)


def _box_count(into: Mapping[int, str], leaf_boxes: Counter[int]) -> int:
    folded = {target for target in into.values() if target}
    return len(folded) + sum(1 + leaf_boxes[node] for node, target in into.items() if not target)


def _folded_at(
    nodes: Iterable[GraphNode],
    calls: Calls,
    depth: int,
    expand: tuple[str, ...],
    open_nodes: frozenset[int],
) -> dict[int, str]:
    into: dict[int, str] = {}
    for node in nodes:
        chain = calls.chains.get(node.id, ())
        target = chain[depth - 1] if len(chain) >= depth and node.id not in open_nodes else ""
        into[node.id] = "" if target and _is_open(calls.calls[target].path, expand) else target
    return into


def _is_open(path: str, expand: tuple[str, ...]) -> bool:
    """Whether the module, or one inside it or around it, was asked to stay open."""
    return any(f"{path}.".startswith(f"{name}.") or name.startswith(f"{path}.") for name in expand)


def _first(into: Mapping[int, str], leaf_boxes: Counter[int], limit: int) -> dict[int, str]:
    """The nodes of the first boxes, in the graph's order, up to the limit."""
    kept: dict[int, str] = {}
    folded: set[str] = set()
    room = limit
    for node, target in into.items():
        if target not in folded:
            room -= 1 if target else 1 + leaf_boxes[node]
            if room < 0 and kept:
                break
        if target:
            folded.add(target)
        kept[node] = target
    return kept


def _notes(graph: Graph, kept: Mapping[int, str], *, cut: bool) -> Iterable[str]:
    inside = [target for target in kept.values() if target]
    if inside:
        calls = plural(len(set(inside)), "module call")
        yield (
            f"{plural(len(inside), 'node')} folded into {calls}; open them with --expand MODULE "
            "or --all"
        )
    if cut:
        beside = leaves_beside(graph)
        used = {edge.next for edge in graph.edges if edge.node in kept and edge.next in beside}
        shown, total = count(len(kept) + len(used)), count(len(graph.nodes))
        yield f"showing {shown} of {total} nodes; use --around NODE, --step N or --all"
