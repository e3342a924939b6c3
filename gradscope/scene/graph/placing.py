"""Assigns the nodes of a graph to boxes and frames."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gradscope.analysis.graph.columns import GraphColumns
from gradscope.scene.choices import GroupBy
from gradscope.scene.graph.blocks.folding import Folder, Folding
from gradscope.scene.graph.blocks.outline import MadeBy, NodeBlock, Outline, Part
from gradscope.scene.graph.options import GraphOptions


@dataclass(frozen=True, slots=True)
class Use:
    """One box of a leaf, next to a node that sends it a gradient."""

    box: str
    leaf: int
    number: int  # from 1; 0: one box for all uses
    total: int


class Placing:
    """The assignment of nodes to boxes and frames."""

    def __init__(
        self,
        options: GraphOptions,
        columns: GraphColumns,
        outline: Outline,
        folder: Folder,
        folding: Folding,
        letter: str = "n",
    ) -> None:
        self.letter = letter  # the prefix of ids of boxes
        self.options = options
        self.columns = columns
        self.outline = outline
        self.folding = folding
        self.uses = _uses_of_leaves(
            columns, folding, folder.leaves, letter, merged=options.merge_leaves
        )
        self.uses_of: dict[int, list[Use]] = {}  # by the node they are next to
        for (node, _), use in self.uses.items():
            self.uses_of.setdefault(node, []).append(use)
        self._groups: dict[int, NodeBlock] = {}  # by node: the innermost block that is open
        self.open_blocks: dict[str, NodeBlock] = {}  # outer ones first
        if options.group_by is not GroupBy.NONE:
            self._look_into(outline.whole, folder)

    def _look_into(self, block: NodeBlock, folder: Folder) -> None:
        if block.made is not MadeBy.WHOLE:
            self.open_blocks[block.id] = block
        for part in folder.inside(block):
            if isinstance(part, int):
                self._groups[self._id(int(self.outline.order[part]))] = block
            elif folder.is_open(part):
                self._look_into(part, folder)

    def _id(self, place: int) -> int:
        return int(self.columns.id[place])

    # Boxes ---------------------------------------------------------------------------------------

    def name(self, box: Part) -> str:
        """The id of the box of a node, by its place in the columns, or of a block."""
        return f"m:{box.id}" if isinstance(box, NodeBlock) else f"{self.letter}{self._id(box)}"

    def group_of(self, box: Part) -> str:
        """The id of the frame that contains a box."""
        if self.options.group_by is GroupBy.NONE:
            return ""
        around = box.parent if isinstance(box, NodeBlock) else self._groups.get(self._id(box))
        return around.id if around else ""

    def nodes_in(self, block: NodeBlock) -> list[int]:
        """The ids of a block's nodes, in the graph's order."""
        places = self.outline.order[block.first : block.end]
        ordered = places[np.argsort(self.columns.rank[places])]
        found: list[int] = self.columns.id[ordered].tolist()
        return found

    def leaves_in(self, block: NodeBlock) -> int:
        """The number of leaves that the nodes of a block send gradients to."""
        places = self.outline.order[block.first : block.end]
        heads = self.columns.head[np.isin(self.columns.tail, places)]
        return len(set(heads[self.columns.leaf[heads]].tolist()))

    def nodes_drawn(self) -> list[int]:
        """The ids of all nodes with their own box, in the graph's order; then leaves."""
        nodes = [self._id(box) for box in self.folding.boxes if not isinstance(box, NodeBlock)]
        return list(dict.fromkeys([*nodes, *(use.leaf for use in self.uses.values())]))

    def contents(self) -> dict[str, list[int]]:
        """The nodes that each box stands for."""
        found = {
            self.name(box): self.nodes_in(box) if isinstance(box, NodeBlock) else [self._id(box)]
            for box in self.folding.boxes
        }
        for use in self.uses.values():
            found[use.box] = [use.leaf]
        return found


def _uses_of_leaves(
    columns: GraphColumns,
    folding: Folding,
    beside: Mapping[int, Sequence[int]],
    letter: str,
    *,
    merged: bool,
) -> Mapping[tuple[int, int], Use]:
    """The boxes of leaves, by the ids of the node they are next to and of the leaf."""
    own = np.array([not isinstance(box, NodeBlock) for box in folding.boxes] + [False])
    pairs = [(node, leaf) for node, leaves in beside.items() for leaf in leaves]
    total = Counter(leaf for _, leaf in pairs)
    seen: Counter[int] = Counter()
    uses = {}
    for node, leaf in pairs:
        seen[leaf] += 1
        if not own[folding.box_of[node]]:
            continue
        ids = int(columns.id[node]), int(columns.id[leaf])
        if merged or total[leaf] == 1:
            uses[ids] = Use(f"{letter}{ids[1]}", ids[1], 0, total[leaf])
        else:
            uses[ids] = Use(f"{letter}{ids[1]}u{seen[leaf]}", ids[1], seen[leaf], total[leaf])
    return uses
