"""Decides which nodes have their own box, which are folded into a block, and which are left out.

Everything is folded at first. Then the most important block is opened, as long as the picture has
room for its boxes: blocks with findings first, then those in focus, then the slowest.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from gradscope.analysis.graph.columns import GraphColumns
from gradscope.analysis.lookups import Ids
from gradscope.scene.choices import GraphOf
from gradscope.scene.graph.blocks.outline import (
    MadeBy,
    NodeBlock,
    Outline,
    Part,
    ShownTurns,
    before,
)
from gradscope.scene.graph.options import GraphOptions
from gradscope.scene.readable import count, plural

MOST_IN_FOCUS = 8
"""Number of nodes in focus that are shown, whatever the limit."""

MOST_BESIDE = 12
"""Number of leaves of one node that are drawn; its box says how many more there are."""

Waiting = tuple[tuple[int, ...], int, str, NodeBlock]
"""A block that may be opened, with its sort key; smaller keys first."""


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the user wants to see, as places in a graph's columns."""

    focus: Ids
    findings: Ids
    expand: tuple[Ids, ...]  # all nodes of each name
    fold: tuple[Ids, ...]
    limit: int
    everything: bool
    merge_leaves: bool
    by_size: bool = False  # open large blocks first, not slow ones


def wishes(
    options: GraphOptions,
    columns: GraphColumns,
    focus: Collection[int],
    findings: Collection[int],
    find: Callable[[str], Collection[int]],
) -> Wishes:
    """The named nodes, as places. Raises UnknownNameError for unknown names."""
    return Wishes(
        focus=columns.places(focus),
        findings=columns.places(findings),
        expand=tuple(columns.places(find(name)) for name in options.expand),
        fold=tuple(columns.places(find(name)) for name in options.fold),
        limit=options.most,
        everything=options.everything,
        merge_leaves=options.merge_leaves,
        by_size=options.graph is GraphOf.BOTH,  # or each graph would open other modules
    )


@dataclass(frozen=True, slots=True)
class Folding:
    """The boxes in the graph's order: nodes by their place in its columns, and blocks."""

    boxes: tuple[Part, ...]
    box_of: Ids  # by place: the box of the node; NONE: none, or that of a leaf
    notes: tuple[str, ...]


class Folder:
    """Opens the blocks of one outline."""

    def __init__(
        self, columns: GraphColumns, outline: Outline, wishes: Wishes, noun: str = "node"
    ) -> None:
        self._noun = noun  # what the columns hold
        self._columns = columns
        self._outline = outline
        self._wishes = wishes
        order = outline.order
        self.spent = before(columns.own_ns[order])
        self._findings = before(np.isin(order, wishes.findings))
        self._focus = before(np.isin(order, wishes.focus))
        # Requested iterations are shown too, unless a whole block is requested.
        asked = [each for each in wishes.expand if len(each) < MOST_IN_FOCUS]
        looked_at = np.concatenate([wishes.findings, wishes.focus, *asked])
        self._wanted = ShownTurns(self.spent, before(np.isin(order, looked_at)))
        self.leaves = leaves_beside(columns, all_of_them=wishes.everything)
        self._beside: Counter[int] = Counter()  # by leaf: the boxes it is next to
        self._opened: set[NodeBlock] = set()
        self._stand = 0

    def fold(self) -> Folding:
        """Open requested blocks, then the most important ones; cut what is still too much."""
        waiting: list[Waiting] = []
        self._open(self._outline.whole)
        too_many = self._stand > self._wishes.limit
        for block in self._asked_for():
            self._open(block)
        for block in [self._outline.whole, *self._opened]:
            self._put(waiting, block)
        while waiting and not self._wishes.everything:
            *_, block = heapq.heappop(waiting)
            if self._stand + self._more(block) <= self._wishes.limit:
                self._open(block)
                self._put(waiting, block)
        boxes = sorted(self._boxes(self._outline.whole), key=self._rank)
        kept = self._cut(boxes) if too_many and not self._wishes.everything else boxes
        box_of = np.full(len(self._columns.id), -1, np.int64)
        for number, box in enumerate(kept):
            box_of[self._inside(box)] = number
        placed = tuple(box if isinstance(box, NodeBlock) else self._place(box) for box in kept)
        return Folding(placed, box_of, tuple(self._notes(kept, box_of)))

    def is_open(self, block: NodeBlock) -> bool:
        return block in self._opened

    def inside(self, block: NodeBlock) -> list[Part]:
        return self._outline.inside(block, self._wanted)

    # Opening -------------------------------------------------------------------------------------

    def _asked_for(self) -> Iterator[NodeBlock]:
        """The blocks that must be open, outer ones first."""
        named = [*self._wishes.expand, self._wishes.focus[:MOST_IN_FOCUS]]
        for block in self._closed(self._outline.whole):
            inside = self._inside(block)
            if self._wishes.everything or any(np.isin(each, inside).any() for each in named):
                yield block

    def _closed(self, block: NodeBlock) -> Iterator[NodeBlock]:
        """The closed blocks in an open one, including those opened during the iteration."""
        for part in self._outline.inside(block, self._wanted):
            if isinstance(part, NodeBlock) and self._may_open(part):
                yield part
                if part in self._opened:
                    yield from self._closed(part)

    def _may_open(self, block: NodeBlock) -> bool:
        if block.made is MadeBy.TURNS:
            return False
        inside = self._inside(block)
        return not any(np.isin(inside, each).all() for each in self._wishes.fold)

    def _put(self, waiting: list[Waiting], block: NodeBlock) -> None:
        for part in self._outline.inside(block, self._wanted):
            if isinstance(part, NodeBlock) and part not in self._opened and self._may_open(part):
                heapq.heappush(waiting, (self._weight(part), part.first, part.id, part))

    def _weight(self, block: NodeBlock) -> tuple[int, ...]:
        """The sort key of a block; the most important is the smallest."""
        ends = slice(block.first, block.end + 1, max(1, block.end - block.first))
        spent = [] if self._wishes.by_size else [self.spent]
        sums = (np.diff(each[ends])[0] for each in (self._findings, self._focus, *spent))
        return (*(-int(each) for each in sums), block.first - block.end)

    def _open(self, block: NodeBlock) -> None:
        self._stand += self._more(block)
        self._opened.add(block)
        for part in self._outline.inside(block, self._wanted):
            if isinstance(part, int):
                self._beside.update(self.leaves.get(self._place(part), ()))

    def _more(self, block: NodeBlock) -> int:
        """The number of additional boxes when a block is open."""
        parts = self._outline.inside(block, self._wanted)
        nodes = [self._place(part) for part in parts if isinstance(part, int)]
        leaves: Collection[int] = [leaf for node in nodes for leaf in self.leaves.get(node, ())]
        if self._wishes.merge_leaves:
            leaves = set(leaves).difference(self._beside)
        return len(parts) + len(leaves) - (block is not self._outline.whole)

    # Result --------------------------------------------------------------------------------------

    def _boxes(self, block: NodeBlock) -> Iterator[Part]:
        for part in self._outline.inside(block, self._wanted):
            if isinstance(part, NodeBlock) and part in self._opened:
                yield from self._boxes(part)
            else:
                yield part

    def _place(self, node: int) -> int:
        return int(self._outline.order[node])

    def _inside(self, part: Part) -> Ids:
        """The places of the nodes of a part in the columns."""
        if isinstance(part, int):
            return self._outline.order[part : part + 1]
        return self._outline.order[part.first : part.end]

    def _rank(self, part: Part) -> int:
        return int(self._columns.rank[self._inside(part)].min())

    def _cut(self, boxes: list[Part]) -> list[Part]:
        """The boxes within the limit: requested ones first, then in the graph's order."""
        looked_at = {*self._wishes.findings.tolist(), *self._wishes.focus.tolist()}
        kept: set[int] = set()
        room = self._wishes.limit
        beside: set[int] = set()
        for number, part in sorted(
            enumerate(boxes),
            key=lambda each: looked_at.isdisjoint(self._inside(each[1]).tolist()),
        ):
            leaves = [] if isinstance(part, NodeBlock) else self.leaves.get(self._place(part), [])
            new = set(leaves) - beside if self._wishes.merge_leaves else leaves
            room -= 1 + len(new)
            if room < 0 and kept:
                break
            beside.update(new)
            kept.add(number)
        return [part for number, part in enumerate(boxes) if number in kept]

    def _notes(self, kept: Iterable[Part], box_of: Ids) -> Iterator[str]:
        folded = [part for part in kept if isinstance(part, NodeBlock)]
        if folded:
            inside = plural(sum(block.end - block.first for block in folded), self._noun)
            yield (
                f"{inside} folded into {plural(len(folded), 'box', 'boxes')}; --expand NAME "
                "opens one, --limit N more of them, --all every one"
            )
        shown = box_of >= 0
        if not shown[~self._columns.beside].all():
            used = np.zeros(len(shown), bool)
            used[self._columns.head[shown[self._columns.tail]]] = True
            drawn = int(shown.sum() + (used & self._columns.beside).sum())
            total = count(len(shown))
            named = f"--around {self._noun.upper()}, --step N or --all"
            yield f"showing {count(drawn)} of {total} {self._noun}s; use {named}"


def leaves_beside(columns: GraphColumns, *, all_of_them: bool) -> dict[int, list[int]]:
    """By place of a node, the leaves drawn next to it: a few, or all of them."""
    found: dict[int, list[int]] = defaultdict(list)
    to_leaf = columns.beside[columns.head]
    tails, heads = columns.tail[to_leaf].tolist(), columns.head[to_leaf].tolist()
    for tail, head in dict.fromkeys(zip(tails, heads, strict=True)):
        if all_of_them or len(found[tail]) < MOST_BESIDE:
            found[tail].append(head)
    return found
