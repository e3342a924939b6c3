"""Predicts the counts and the queue of a backward from its graph and its arguments.

# Note [Replay]
What an engine counts, pushes or pops does not depend on values: it follows from nodes, edges, the
order in which nodes were created, the roots, and `inputs=`. Nodes of the same priority leave a heap
in the same order as in PyTorch, because Python's heap makes the same moves as that of libstdc++ as
long as entries compare by priority alone.

Which gradients are undefined, and which sums were made in place, cannot be predicted.

A backward inside another finds the nodes which that one has left in the queue of their thread, and
these decide between nodes of the same priority: such backwards share a list and are replayed
together.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import NamedTuple

Edges = Sequence[tuple[int, int]]
"""For each gradient that a node returns: its destination, or NOBODY, and which input there."""

NOBODY = -1


class ReplayGraph(NamedTuple):
    """What a replay needs to know about nodes, by their ids."""

    edges: Mapping[int, Edges]
    sequence: Mapping[int, int]  # -1: an AccumulateGrad, which runs as soon as it is ready
    topological: Mapping[int, int]


def graph_of(
    nodes: Iterable[tuple[int, int, int]], edges: Iterable[tuple[int, int, int, int]]
) -> tuple[ReplayGraph, set[int]]:
    """A graph from its rows, and the nodes with missing edges, which are left out.

    For a node: its id, sequence number and topological number; for an edge: its node, its index
    among the edges of the node, its destination, and which input there.
    """
    found: dict[int, list[tuple[int, int]]] = {}
    sequence, topological = {}, {}
    for id_, number, above in nodes:
        found[id_], sequence[id_], topological[id_] = [], number, above
    unknown: set[int] = set()
    for node, index, following, nr in sorted(edges):
        if node in found and index == len(found[node]):
            found[node].append((following, nr))
        else:
            unknown.add(node)
            found.pop(node, None)
    found[NOBODY], topological[NOBODY] = [], 0  # a requested leaf that is not reached
    return ReplayGraph(found, sequence, topological), unknown


class Popped(NamedTuple):
    """A node leaves the queue."""

    node: int
    length: int  # of the queue afterwards
    captured: tuple[int, ...]  # which of its inputs were requested
    runs: bool


@dataclass(slots=True)
class Sent:
    """A gradient that is passed on."""

    index: int  # which output of its source
    node: int
    nr: int
    left: int  # number of gradients the node still waits for
    wanted: bool  # by the node, or by one it leads to
    added: bool  # added to one in the buffer; else it is the first one
    length: int  # of the queue, if the node is ready now; else -1


class ReplayStep(NamedTuple):
    """What happens to a node that leaves the queue."""

    node: int
    length: int
    captured: tuple[int, ...]
    runs: bool
    sent: tuple[Sent, ...]


class Ready:
    """An entry of a queue, compared only by priority."""

    __slots__ = ("key", "node")

    def __init__(self, key: tuple[int, int], node: int) -> None:
        self.key, self.node = key, node

    def __lt__(self, other: Ready) -> bool:
        return self.key < other.key


LEAF, SOMEBODY = -(1 << 63), (1, 0)
"""Sorts before all sequence numbers and after all nodes, whose depth is at least 0."""


class ReplayBackward:
    """One graph task. `counts` are its dependencies, in the order in which they are found.

    `queue` is that of its thread, with the remaining nodes of the tasks it runs inside, and `depth`
    is the number of these tasks. If the queue is not known, `waiting` is the number of nodes in it.
    `undefined` are the gradients that were None: the node that returned one, and which output.
    """

    def __init__(
        self,
        graph: ReplayGraph,
        root: int,
        inputs: Sequence[tuple[int, int]] = (),
        *,
        accumulates: bool = True,
        waiting: int = 0,
        depth: int = 0,
        queue: list[Ready] | None = None,
        undefined: Container[tuple[int, int]] = (),
    ) -> None:
        self._graph, self._root, self._depth = graph, root, depth
        self._queue = [Ready(SOMEBODY, NOBODY)] * waiting if queue is None else queue
        self._undefined = undefined
        lowest = min((graph.topological[node] for node, _ in inputs), default=0)
        self.counts = self._counted(lowest)
        self.captures: dict[int, tuple[int, ...]] = {}
        self.needed: set[int] | None = None
        if inputs:
            self.needed = {node for node, _ in inputs} if accumulates else set()
            if not accumulates:
                for node, nr in inputs:
                    self.captures[node] = (*self.captures.get(node, ()), nr)
            self._mark(lowest)

    def _counted(self, lowest: int) -> dict[int, int]:
        counts: dict[int, int] = {}
        edges, topological = self._graph.edges, self._graph.topological
        pending = [self._root]
        while pending:
            node = pending.pop()
            if topological[node] < lowest:
                continue
            for following, _ in edges[node]:
                if following == NOBODY:
                    continue
                if following in counts:
                    counts[following] += 1
                else:
                    counts[following] = 1
                    pending.append(following)
        return counts

    def _mark(self, lowest: int) -> None:
        """The nodes that lead to requested nodes, computed after the nodes they lead to."""
        edges, topological, needed = self._graph.edges, self._graph.topological, self.needed
        assert needed is not None
        met = sorted({self._root, *self.counts}, key=topological.__getitem__)
        for node in met:
            seen = node == self._root or topological[node] >= lowest
            if seen and any(self._is_wanted(following) for following, _ in edges[node]):
                needed.add(node)

    def _is_wanted(self, node: int) -> bool:
        return self.needed is None or node in self.needed or node in self.captures

    def key(self, node: int) -> tuple[int, int]:
        """What decides when a node leaves a queue: the smallest one leaves first."""
        number = self._graph.sequence[node]
        return -self._depth, (LEAF if number < 0 else -number)

    def sequence_nr(self, node: int) -> int:
        """The sequence number of a node."""
        return self._graph.sequence[node]

    def runs(self, node: int) -> bool:
        """Whether a node that leaves its queue runs."""
        return self.needed is None or node in self.needed

    def _push(self, node: int) -> int:
        heappush(self._queue, Ready(self.key(node), node))
        return len(self._queue)

    def begin(self) -> int:
        """Push the root. Returns the length of the queue afterwards."""
        return self._push(self._root)

    def walk(self) -> Iterator[Popped | Sent]:
        """The following steps: a node is popped, runs, and its gradients are passed on."""
        left = dict(self.counts)
        kept: dict[int, set[int]] = {}  # inputs of a node that have gradients
        outstanding = 1
        while outstanding:
            node = heappop(self._queue).node
            outstanding -= 1
            runs = self.runs(node)
            yield Popped(node, len(self._queue), self.captures.get(node, ()), runs)
            for sent in self.sent_by(node, left, kept) if runs else ():
                if sent.wanted and not sent.left:
                    outstanding += 1
                    sent.length = self._push(sent.node)
                yield sent

    def ends(self, node: int) -> list[int]:
        """Which outputs of a node have a destination."""
        return [at for at, (to, _) in enumerate(self._graph.edges[node]) if to != NOBODY]

    def sent_by(self, node: int, left: dict[int, int], kept: dict[int, set[int]]) -> Iterator[Sent]:
        """The gradients that a node passes on, without pushes.

        `left`: the number of gradients that each node still waits for; `kept`: inputs of each node
        that have gradients. Both are changed.
        """
        for index, (following, nr) in enumerate(self._graph.edges[node]):
            if following == NOBODY:
                continue
            left[following] -= 1
            wanted, added = self._is_wanted(following), False
            if wanted:
                none, first = (node, index) in self._undefined, following not in kept
                there = kept.setdefault(following, set())
                added = nr in there or (none and not first)
                there |= set() if none else {nr}
            yield Sent(index, following, nr, left[following], wanted, added, -1)

    def steps(self) -> list[ReplayStep]:
        """The whole replay of a task, if nothing else happens in between."""
        self.begin()
        made: list[tuple[Popped, list[Sent]]] = []
        for each in self.walk():
            if isinstance(each, Popped):
                made.append((each, []))
            else:
                made[-1][1].append(each)
        return [ReplayStep(*taken, tuple(sent)) for taken, sent in made]
