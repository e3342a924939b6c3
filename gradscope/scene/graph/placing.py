"""Which box stands for which node of a graph, and where: the plan that boxes and arrows follow."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from gradscope.analysis.graph.graph import Graph, GraphNode
from gradscope.scene.choices import GroupBy
from gradscope.scene.graph.folding import Folding
from gradscope.scene.graph.grouping import Calls
from gradscope.scene.graph.options import GraphOptions


@dataclass(frozen=True, slots=True)
class Use:
    """One box of a leaf, beside a node that sends it a gradient."""

    box: str
    leaf: int
    number: int  # from 1; 0 when one box stands for all uses
    total: int


@dataclass(frozen=True, slots=True)
class Placing:
    """Everything that says which box stands where."""

    options: GraphOptions
    graph: Graph
    calls: Calls
    folding: Folding
    uses: Mapping[tuple[int, int], Use]  # by node and leaf; only those that are drawn

    def box_of(self, node: int) -> str:
        """The id of the box that stands for a node; "" when none does."""
        target = self.folding.into.get(node)
        if target is None:
            return ""
        return f"m:{target}" if target else f"n{node}"

    def group_of(self, node: GraphNode) -> str:
        if self.options.group_by is GroupBy.NONE:
            return ""
        chain = self.calls.chains.get(node.id, ())
        return chain[-1] if chain else self.calls.tops.get(node.id, "")

    def contents(self) -> dict[str, list[int]]:
        """The nodes that each box stands for."""
        found: dict[str, list[int]] = defaultdict(list)
        for node in self.folding.into:
            found[self.box_of(node)].append(node)
        for use in self.uses.values():
            if use.leaf not in found[use.box]:
                found[use.box].append(use.leaf)
        return found


def uses_of_leaves(
    facts: Graph, folding: Folding, options: GraphOptions
) -> dict[tuple[int, int], Use]:
    """The boxes of leaves, by the node they stand beside and the leaf."""
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
            uses[node, leaf] = Use(f"n{leaf}", leaf, 0, total[leaf])
        else:
            number = seen[leaf]
            uses[node, leaf] = Use(f"n{leaf}u{number}", leaf, number, total[leaf])
    return uses
