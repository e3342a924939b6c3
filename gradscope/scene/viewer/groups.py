"""The groups that the page folds: the blocks of a graph, and all iterations of its loops.

Each group is a contiguous range of nodes in the order of their creation, so that folding one never
creates a cycle. Leaves belong to the group of the node that uses them first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import IntEnum

import numpy as np

from gradscope.analysis.graph.columns import GraphColumns
from gradscope.analysis.lookups import Ids
from gradscope.scene.graph.blocks.outline import (
    STRETCHES,
    MadeBy,
    NodeBlock,
    Outline,
    Part,
    ShownTurns,
    before,
    stretch_size,
)
from gradscope.scene.graph.blocks.structures import Structures
from gradscope.scene.graph.blocks.titles import Titles
from gradscope.scene.viewer.text_columns import Table, Texts, ints
from gradscope.trace.schema import NONE
from gradscope.trace.trace import Trace


class GroupForm(IntEnum):
    """The kind of a group."""

    ALL = 0
    STEP = 1
    BACKWARD = 2  # created by a double backward
    MODULE = 3
    LOOP = 4
    TURN = 5
    STRETCH = 6  # a range of a list that is too long
    RANK = 7  # a process of a merged trace


FORM_NAMES = {GroupForm.TURN: "iteration", GroupForm.STRETCH: "range"}
"""Names of forms on the page that differ from those of the enum."""

FORMS = {
    MadeBy.WHOLE: GroupForm.ALL,
    MadeBy.RANK: GroupForm.RANK,
    MadeBy.STEP: GroupForm.STEP,
    MadeBy.BACKWARD: GroupForm.BACKWARD,
    MadeBy.CALL: GroupForm.MODULE,
    MadeBy.LOOP: GroupForm.LOOP,
    MadeBy.TURN: GroupForm.TURN,
    MadeBy.TURNS: GroupForm.STRETCH,
    MadeBy.STRETCH: GroupForm.STRETCH,
}


class Groups:
    """The groups of one graph."""

    def __init__(self, trace: Trace, columns: GraphColumns) -> None:
        self._columns = columns
        self._outline = Outline(trace, columns, loops=True, steps=True)
        spent = before(columns.own_ns[self._outline.order])
        self._wanted = ShownTurns(spent, np.zeros_like(spent))
        self._structures = Structures(self._outline, columns)
        self._titles = Titles(trace, columns, self._outline, spent)

    def table(self, texts: Texts) -> tuple[Table, Ids]:
        """The groups, parents first, and the group of each node."""
        of_node = np.zeros(len(self._columns.id), np.int64)
        groups: list[NodeBlock] = []
        parents: list[int] = []
        waiting: list[tuple[NodeBlock, int]] = [(self._outline.whole, NONE)]
        while waiting:
            group, parent = waiting.pop()
            place = len(groups)
            groups.append(group)
            parents.append(parent)
            parts = self._parts(group)
            nodes = [part for part in parts if isinstance(part, int)]
            of_node[self._outline.order[nodes]] = place
            waiting += [(part, place) for part in reversed(parts) if not isinstance(part, int)]
        self._place_leaves(of_node)
        structures = [self._structures.of(each) for each in groups]
        table: Table = {
            "parent": ints(parents),
            "form": ints(FORMS[each.made] for each in groups),
            "title": texts.column(self._title(each) for each in groups),
            "path": texts.column(each.path for each in groups),
            "rank": ints(each.rank for each in groups),
            "step": ints(each.step for each in groups),
            "turns": ints(each.count if each.made is MadeBy.LOOP else 0 for each in groups),
            "structure": ints(structures),
            "alike": texts.column(
                "" if each == NONE else self._structures.title(each) for each in structures
            ),
        }
        return table, of_node

    def _title(self, block: NodeBlock) -> str:
        return "everything" if block.made is MadeBy.WHOLE else self._titles.title(block)

    def _parts(self, block: NodeBlock) -> Sequence[Part]:
        if block.made is MadeBy.TURNS:
            return list(self._turns(block))
        return self._outline.inside(block, self._wanted)

    def _turns(self, block: NodeBlock) -> Iterator[Part]:
        """The iterations that a loop does not show separately; if many, in ranges."""
        loop, first, end = block.parent, block.number - 1, block.number - 1 + block.count
        assert loop is not None
        size = stretch_size(block.count) if block.count > STRETCHES else 1
        for at in range(first, end, size):
            until = min(at + size, end)
            many = until - at > 1
            yield self._outline.turns(loop, at, until) if many else self._outline.turn(loop, at)

    def _place_leaves(self, of_node: Ids) -> None:
        """Put each leaf into the group of its first use."""
        tail, head = self._columns.tail, self._columns.head
        to_leaf = self._columns.beside[head]
        order = np.argsort(tail[to_leaf], kind="stable")[::-1]  # of several, the first one stays
        of_node[head[to_leaf][order]] = of_node[tail[to_leaf][order]]
