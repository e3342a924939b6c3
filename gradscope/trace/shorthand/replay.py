"""What a backward does with its counts and its queue, foretold from the graph and what was asked.

# Note [Replay]
Nothing that an engine counts, pushes or pops depends on numbers: it follows from nodes, edges, the
order in which nodes were made, the roots, and what `inputs=` asked for. Nodes of the same priority
leave a heap as they do in PyTorch, since Python's heap makes the moves of libstdc++'s as long as
entries compare by priority alone.

What is handed over as undefined, and which sums were made in place, does not follow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import heappop, heappush
from typing import NamedTuple

Edges = Sequence[tuple[int, int]]
"""For each gradient that a node returns: the node it goes to, or NOBODY, and which input there."""

NOBODY = -1


class Graph(NamedTuple):
    """All that a replay needs to know of nodes, by their ids."""

    edges: Mapping[int, Edges]
    sequence: Mapping[int, int]  # -1: an AccumulateGrad, which runs as soon as it is ready
    topological: Mapping[int, int]


class Sent(NamedTuple):
    """A gradient that is handed on."""

    index: int  # which of its source's
    node: int
    nr: int
    left: int  # how many more the node waits for
    wanted: bool  # by the node, or by one it leads to
    added: bool  # to one that is kept there; else it is the first that is kept
    length: int  # of the queue, if the node is ready now; else -1


class Step(NamedTuple):
    """What happens to one node that leaves the queue."""

    node: int
    length: int  # of the queue, afterwards
    captured: tuple[int, ...]  # which of its inputs were asked for
    runs: bool
    sent: tuple[Sent, ...]


class _Ready:
    """An entry of the queue: none is less than another of the same priority."""

    __slots__ = ("key", "node")

    def __init__(self, key: int, node: int) -> None:
        self.key, self.node = key, node

    def __lt__(self, other: _Ready) -> bool:
        return self.key < other.key


class Backward:
    """One graph task. `counts` are its dependencies, in the order in which they are found."""

    def __init__(
        self,
        graph: Graph,
        root: int,
        inputs: Sequence[tuple[int, int]] = (),
        *,
        accumulates: bool = True,
        waiting: int = 0,  # in the queue, of the tasks this one runs inside of
    ) -> None:
        self._graph = graph
        self._root = root
        self._waiting = waiting
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
        """Which nodes lead to what was asked for: what each leads to is known before itself."""
        edges, topological, needed = self._graph.edges, self._graph.topological, self.needed
        assert needed is not None
        seen, pending = {self._root}, [(self._root, iter(edges[self._root]))]
        while pending:
            node, rest = pending[-1]
            for following, _ in rest:
                if following == NOBODY or following in seen or topological[following] < lowest:
                    continue
                seen.add(following)
                pending.append((following, iter(edges[following])))
                break
            else:
                pending.pop()
                if any(self._is_wanted(following) for following, _ in edges[node]):
                    needed.add(node)

    def _is_wanted(self, node: int) -> bool:
        return self.needed is None or node in self.needed or node in self.captures

    def steps(self) -> list[Step]:
        """Every node that leaves the queue, in order."""
        edges, sequence, left = self._graph.edges, self._graph.sequence, dict(self.counts)
        kept: dict[int, set[int]] = {}
        heap: list[_Ready] = []
        made: list[Step] = []

        def push(node: int) -> int:
            number = sequence[node]
            heappush(heap, _Ready(-number if number >= 0 else -(1 << 63), node))
            return len(heap) + self._waiting

        push(self._root)
        while heap:
            node = heappop(heap).node
            length = len(heap) + self._waiting
            runs = self.needed is None or node in self.needed
            sent: list[Sent] = []
            for index, (following, nr) in enumerate(edges[node] if runs else ()):
                if following == NOBODY:
                    continue
                left[following] -= 1
                wanted = following in kept or self._is_wanted(following)
                added = wanted and nr in kept.setdefault(following, set())
                ready = -1
                if wanted:
                    kept[following].add(nr)
                    ready = -1 if left[following] else push(following)
                sent.append(Sent(index, following, nr, left[following], wanted, added, ready))
            made.append(Step(node, length, self.captures.get(node, ()), runs, tuple(sent)))
        return made
