"""The nodes and edges of a trace as arrays, of which each replay takes the part it needs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gradscope.errors import UnreadableTraceError
from gradscope.trace.ragged import Array, Ragged
from gradscope.trace.schema.declare import NONE
from gradscope.trace.schema.tables import Edge, Node
from gradscope.trace.shorthand.replay import NOBODY, ReplayGraph
from gradscope.trace.shorthand.short_columns import Ints

if TYPE_CHECKING:
    from gradscope.trace.table import Block

LEAF_NUMBER = -1
"""The sequence number of an AccumulateGrad."""


def integers(blocks: Sequence[Block], name: str, otherwise: int | None = None) -> Ints:
    """A column of these blocks; `otherwise`: where it is missing."""
    made = [np.zeros(0, np.int64)]
    for block in blocks:
        values = block.data.get(name)
        if values is None and otherwise is not None:
            values = np.full(block.rows, otherwise)
        if values is None or isinstance(values, Ragged) or values.dtype.kind not in "ib":
            raise UnreadableTraceError(f"{block.table}.{name} is missing or holds no integers")
        made.append(values)
    return np.concatenate(made).astype(np.int64, copy=False)


@dataclass(frozen=True, slots=True)
class ReachedNodes:
    """The nodes that a backward can reach: their positions, and the same with local numbers.

    Equal `form` means that the graphs differ only in the ids of their nodes.
    """

    at: list[int]
    form: tuple[int, ...]


class ReplayColumns:
    """Nodes by id, and their edges in order.

    Expanding a trace needs the nodes of one backward at a time: a dictionary of all nodes would
    take several times the memory of these arrays.
    """

    def __init__(self, plain: Sequence[Block], saving: Ints) -> None:
        nodes = [block for block in plain if block.table == Node.TABLE and not block.amend]
        links = [block for block in plain if block.table == Edge.TABLE and not block.amend]
        ids = integers(nodes, "id")
        order = np.argsort(ids, kind="stable")
        self.ids = ids[order]
        sequence = integers(nodes, "sequence_nr")[order]
        leaf = _first_inputs(nodes)[order]
        self.leaf_of = np.where(sequence == LEAF_NUMBER, leaf, NONE)
        self.sequence = _cells(sequence)
        self._topological = _cells(integers(nodes, "topological_nr")[order])
        self._saves = _cells(np.isin(self.ids, saving).view(np.uint8))
        self._is_leaf = _cells((self.leaf_of != NONE).view(np.uint8))
        self._edges(links)

    def _edges(self, links: Sequence[Block]) -> None:
        columns = [integers(links, name) for name in ("node", "index", "next", "input_nr")]
        order = np.lexsort(columns[::-1])
        node, index, following, nr = (column[order] for column in columns)
        of = self.positions(node)
        place = np.arange(len(node)) - np.searchsorted(node, node)
        wrong = (of == NONE) | (place != index)
        if wrong.any():
            raise UnreadableTraceError(f"edges of node {int(node[wrong].min())} are missing")
        self._next, self._nr = _cells(self.positions(following)), _cells(nr)
        self._first = _cells(np.searchsorted(of, np.arange(len(self.ids) + 1)))

    def positions(self, ids: Ints) -> Ints:
        """Where these nodes are; NONE for those without a row."""
        if not len(self.ids):
            return np.full(len(ids), NONE)
        found = np.maximum(np.searchsorted(self.ids, ids, side="right") - 1, 0)
        return np.where(self.ids[found] == ids, found, NONE)

    def position(self, id: int) -> int:
        """Where this node is; NONE if it has no row."""
        return int(self.positions(np.array([id]))[0])

    def reached(self, root: int) -> ReachedNodes:
        """The nodes that a backward from the node at this position can reach."""
        first, following, nrs = self._first, self._next, self._nr
        local = {root: 0}
        at, form = [root], list[int]()
        for position in at:  # grows while it is read
            start, end = first[position], first[position + 1]
            form += (end - start, self._saves[position], self._is_leaf[position])
            for edge in range(start, end):
                to = following[edge]
                number = NOBODY if to == NONE else local.setdefault(to, len(at))
                if number == len(at):
                    at.append(to)
                form += (number, nrs[edge])
        numbers = [self.sequence[position] for position in at]
        ranks = {number: rank for rank, number in enumerate(sorted({*numbers}))}
        form += (min(number, 0) or ranks[number] for number in numbers)
        form.append(int(any(self._topological[position] < 0 for position in at)))
        return ReachedNodes(at, tuple(form))

    def graph(self, at: Iterable[int], names: Mapping[int, int] | None = None) -> ReplayGraph:
        """The graph of the nodes at these positions, by id, or by another name for a position."""
        edges: dict[int, list[tuple[int, int]]] = {NOBODY: []}
        sequence: dict[int, int] = {}
        topological = {NOBODY: 0}
        for position in at:
            name = self._name(position, names)
            edges[name] = [
                (NOBODY if to == NONE else self._name(to, names), nr)
                for to, nr in self._edges_of(position)
            ]
            sequence[name] = self.sequence[position]
            topological[name] = self._topological[position]
        return ReplayGraph(edges, sequence, topological)

    def _name(self, position: int, names: Mapping[int, int] | None) -> int:
        return int(self.ids[position]) if names is None else names[position]

    def _edges_of(self, position: int) -> Iterator[tuple[int, int]]:
        edges = range(self._first[position], self._first[position + 1])
        return ((self._next[edge], self._nr[edge]) for edge in edges)

    def whole(self) -> ReplayGraph:
        """The graph of all nodes."""
        return self.graph(range(len(self.ids)))

    def leaves(self, at: Iterable[int], names: Mapping[int, int] | None = None) -> dict[int, int]:
        """The leaf of each AccumulateGrad at these positions; with `names` its name."""
        return {
            self._name(position, names): int(self.leaf_of[position])
            if names is None
            else names[position]
            for position in at
            if self._is_leaf[position]
        }

    def saving(self, at: Iterable[int], names: Mapping[int, int] | None = None) -> frozenset[int]:
        """Those of the nodes at these positions with saved tensors that have rows of their own."""
        return frozenset(self._name(position, names) for position in at if self._saves[position])


def _cells(column: Array) -> Sequence[int]:
    """A column whose single cells are read much faster than those of an array."""
    return memoryview(column)  # type: ignore[arg-type]


def _first_inputs(nodes: Sequence[Block]) -> Ints:
    """The first tensor whose gradient each node receives; NONE if there is none."""
    made = [np.zeros(0, np.int64)]
    for block in nodes:
        cells = block.data.get("inputs")
        if not isinstance(cells, Ragged):
            raise UnreadableTraceError(f"{block.table}.inputs is missing or holds no lists")
        first = np.full(block.rows, NONE)
        some = cells.lengths > 0
        first[some] = cells.values[cells.offsets[:-1][some]]
        made.append(first)
    return np.concatenate(made)
