"""Finds blocks with equal structure: the same module type, nodes, and edges between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from gradscope.analysis.graph.columns import GraphColumns
from gradscope.analysis.lookups import Ids
from gradscope.scene.graph.blocks.outline import MadeBy, NodeBlock, Outline, turn_starts
from gradscope.scene.graph.picture import Box, BoxLine, Group, StructureEntry
from gradscope.scene.graph.placing import Placing
from gradscope.scene.kinds import Form
from gradscope.scene.readable import count
from gradscope.trace.schema import NONE

Key = tuple[str, bytes, bytes, bytes]
"""What blocks of equal structure share: type, names of nodes, and both ends of edges."""
Place = tuple[str, int, int]
"""The type of a block, and its first node and the one after its last."""
TO_LEAF, OUTWARD = -1, -2
LETTERS = 26


class Structures:
    """The structures that occur several times in a graph, numbered from the most extensive."""

    def __init__(self, outline: Outline, columns: GraphColumns) -> None:
        self._outline = outline
        self._names = columns.name[outline.order]
        place = np.full(len(columns.id), TO_LEAF, np.int64)
        place[outline.order] = np.arange(len(outline.order))
        tails, heads = place[columns.tail], place[columns.head]
        by_tail = np.argsort(tails, kind="stable")
        self._tails, self._heads = tails[by_tail], heads[by_tail]
        self._starts = np.searchsorted(self._tails, np.arange(len(outline.order) + 1))
        found = [(place, self._key_of(*place)) for place in self._all(outline.whole)]
        keys = [key for _, key in found]
        self.many: Mapping[Key, int] = Counter(keys)
        spread = [
            (-self.many[key] * len(key[1]), number, key)
            for number, key in enumerate(dict.fromkeys(keys))
            if self.many[key] > 1
        ]
        self._numbers = {key: number for number, (_, _, key) in enumerate(sorted(spread))}
        self._keys = list(self._numbers)
        self._known = {place: self._numbers.get(key, NONE) for place, key in found}

    def _all(self, block: NodeBlock) -> Iterator[Place]:
        """All calls and iterations in a block."""
        for part in block.parts:
            if isinstance(part, NodeBlock):
                if part.made is MadeBy.CALL:
                    yield self._place(part)
                yield from self._all(part)
        if block.made is MadeBy.LOOP and block.period > 1:
            starts = turn_starts(block).tolist()
            for first, end in pairwise(starts):
                yield ITERATION, first, end

    def _place(self, block: NodeBlock) -> Place:
        is_turn = block.made is MadeBy.TURN
        title = ITERATION if is_turn else self._outline.types.get(block.path, "")
        return title, block.first, block.end

    def _key_of(self, title: str, first: int, end: int) -> Key:
        edges = slice(self._starts[first], self._starts[end])
        heads: Ids = self._heads[edges]
        inside = (heads >= first) & (heads < end)
        relative = np.where(inside, heads - first, np.minimum(heads, OUTWARD))
        relative[heads == TO_LEAF] = TO_LEAF
        kept = relative != OUTWARD if not inside.all() else slice(None)
        tails = self._tails[edges] - first
        return (
            title,
            self._names[first:end].tobytes(),
            tails[kept].tobytes(),
            relative[kept].tobytes(),
        )

    def of(self, block: NodeBlock) -> int:
        """The number of a block's structure; NONE if no other block has it."""
        if block.made not in (MadeBy.CALL, MadeBy.TURN):
            return NONE
        place = self._place(block)
        known = self._known.get(place)
        return self._numbers.get(self._key_of(*place), NONE) if known is None else known

    def title(self, number: int) -> str:
        """The type of its modules."""
        return self._keys[number][0]

    def entries(self, numbers: Collection[int]) -> tuple[StructureEntry, ...]:
        """The entries of the legend, as in "A · Block ×12"."""
        return tuple(
            StructureEntry(number, f"{letter_of(number)} · {self.title(number)} ×{count(many)}")
            for number in sorted(numbers)
            if number != NONE
            for many in (self.many[self._keys[number]],)
        )

    def painted(
        self, drawn: Sequence[Box], boxes: Sequence[Box], groups: Sequence[Group], placing: Placing
    ) -> tuple[tuple[Box, ...], tuple[Group, ...], tuple[StructureEntry, ...]]:
        """Boxes and frames with the numbers of their structures, and the entries of the legend.

        A box has the structure of the innermost block around it. `drawn`: the boxes before frames
        around a single one were removed; such a box says its structure itself.
        """
        blocks = {each.id: each for each in placing.open_blocks.values()}
        folded = {
            placing.name(each): each
            for each in placing.folding.boxes
            if isinstance(each, NodeBlock)
        }
        home = {box.id: box.group for box in drawn}
        framed = {group.id for group in groups}

        def around(block: NodeBlock | None) -> int:
            while block is not None:
                if (number := self.of(block)) != NONE:
                    return number
                block = block.parent
            return NONE

        def box(each: Box) -> Box:
            own = folded.get(each.id) or blocks.get(home[each.id])
            if own is None or each.form in (Form.LEAF, Form.SAVED, Form.DATA):
                return each
            says = each.form is Form.FOLDED or own.id not in framed
            return replace(
                each,
                structure=around(own),
                lines=(*each.lines, *_line(self.of(own))) if says else each.lines,
            )

        found = tuple(map(box, boxes))
        frames = tuple(
            replace(group, structure=number, lines=(*group.lines, *_line(number)))
            for group in groups
            for number in (self.of(blocks[group.id]),)
        )
        numbers = {box.structure for box in found} | {frame.structure for frame in frames}
        return found, frames, self.entries(numbers)


ITERATION = "iteration"


def _line(number: int) -> tuple[BoxLine, ...]:
    return () if number == NONE else (BoxLine(f"structure {letter_of(number)}"),)


def letter_of(number: int) -> str:
    """A to Z, then A2 to Z2, and so on."""
    turn, place = divmod(number, LETTERS)
    return chr(ord("A") + place) + (str(turn + 1) if turn else "")
