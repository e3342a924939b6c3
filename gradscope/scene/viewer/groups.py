"""What the page folds: the blocks of a graph, all turns of its loops, and stretches of long lists.

Each group is an unbroken run of nodes in the order in which they were made, so that folding one
never makes a cycle. Leaves belong to the group of whoever uses them first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias

import numpy as np

from gradscope.analysis.columns import Ids
from gradscope.analysis.graph.columns import GraphColumns
from gradscope.scene.graph.blocks.outline import Block, Made, Outline, Wanted, before
from gradscope.scene.graph.blocks.titles import Titles
from gradscope.scene.readable import count
from gradscope.scene.viewer.columns import Table, Texts, ints
from gradscope.trace.schema import NONE
from gradscope.trace.trace import Trace

LONGEST = 40
"""A group with more parts than this is cut into stretches."""
STRETCHES = 12


class GroupForm(IntEnum):
    """What a group is."""

    ALL = 0
    STEP = 1
    BACKWARD = 2  # what a double backward made
    MODULE = 3
    LOOP = 4
    TURN = 5
    STRETCH = 6  # of a list too long to be shown at once


FORMS = {
    Made.WHOLE: GroupForm.ALL,
    Made.STEP: GroupForm.STEP,
    Made.BACKWARD: GroupForm.BACKWARD,
    Made.CALL: GroupForm.MODULE,
    Made.LOOP: GroupForm.LOOP,
    Made.TURN: GroupForm.TURN,
    Made.TURNS: GroupForm.STRETCH,
}


@dataclass(frozen=True, slots=True)
class Stretch:
    """Some of the parts of a block that has too many."""

    parts: list[Part]
    title: str


Part: TypeAlias = "int | Block | Stretch"
"""A node, by its place in the outline's order, or a group."""


class Groups:
    """The groups of one graph."""

    def __init__(self, trace: Trace, columns: GraphColumns) -> None:
        self._trace = trace
        self._columns = columns
        self._outline = Outline(trace, columns, loops=True, steps=True)
        spent = before(columns.own_ns[self._outline.order])
        self._wanted = Wanted(spent, np.zeros_like(spent))
        self._titles = Titles(trace, columns, self._outline, spent)

    def table(self, texts: Texts) -> tuple[Table, Ids]:
        """The groups, parents first; and for each node the group it is a part of."""
        of_node = np.zeros(len(self._columns.id), np.int64)
        groups: list[Block | Stretch] = []
        parents: list[int] = []
        waiting: list[tuple[Block | Stretch, int]] = [(self._outline.whole, NONE)]
        while waiting:
            group, parent = waiting.pop()
            place = len(groups)
            groups.append(group)
            parents.append(parent)
            parts = group.parts if isinstance(group, Stretch) else self._parts(group)
            nodes = [part for part in parts if isinstance(part, int)]
            of_node[self._outline.order[nodes]] = place
            waiting += [(part, place) for part in reversed(parts) if not isinstance(part, int)]
        self._place_leaves(of_node)
        blocks = [None if isinstance(each, Stretch) else each for each in groups]
        table: Table = {
            "parent": ints(parents),
            "form": ints(FORMS[each.made] if each else GroupForm.STRETCH for each in blocks),
            "title": texts.column(self._title(each) for each in groups),
            "path": texts.column(each.path if each else "" for each in blocks),
            "turns": ints(each.count if each and each.made is Made.LOOP else 0 for each in blocks),
        }
        return table, of_node

    def _parts(self, block: Block) -> list[Part]:
        parts: Sequence[Part]
        if block.made is Made.TURNS:
            parts = list(self._turns(block))
        else:
            parts = self._outline.inside(block, self._wanted)
        return self._cut(parts, 0, len(parts))

    def _turns(self, block: Block) -> Iterator[Part]:
        """The turns that a loop does not show one by one; of many, stretches."""
        loop, first, end = block.parent, block.number - 1, block.number - 1 + block.count
        assert loop is not None
        size = _stretch_size(block.count) if block.count > STRETCHES else 1
        for at in range(first, end, size):
            until = min(at + size, end)
            many = until - at > 1
            yield self._outline.turns(loop, at, until) if many else self._outline.turn(loop, at)

    def _cut(self, parts: Sequence[Part], first: int, end: int) -> list[Part]:
        """The parts; where there are too many, stretches of them, and stretches of these."""
        if end - first <= LONGEST:
            return list(parts[first:end])
        size = _stretch_size(end - first)
        found: list[Part] = []
        for at in range(first, end, size):
            until = min(at + size, end)
            ends = f"{self._title(parts[at])} … {self._title(parts[until - 1])}"
            where = f"{count(at + 1)} to {count(until)} of {count(len(parts))}"
            found.append(Stretch(self._cut(parts, at, until), f"{where} · {ends}"))
        return found

    def _title(self, part: Part) -> str:
        if isinstance(part, Stretch):
            return part.title
        if isinstance(part, int):
            return self._trace.text(int(self._columns.name[self._outline.order[part]]))
        return "everything" if part.made is Made.WHOLE else self._titles.title(part)

    def _place_leaves(self, of_node: Ids) -> None:
        """Each leaf is where it is used first."""
        tail, head = self._columns.tail, self._columns.head
        to_leaf = self._columns.beside[head]
        order = np.argsort(tail[to_leaf], kind="stable")[::-1]  # of several, the first one stays
        of_node[head[to_leaf][order]] = of_node[tail[to_leaf][order]]


def _stretch_size(length: int) -> int:
    """So long is a stretch that there are at most so many, at every depth."""
    size = 1
    while size * STRETCHES < length:
        size *= STRETCHES
    return size
