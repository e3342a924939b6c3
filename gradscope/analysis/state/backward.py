"""The state of a backward after a moment: running, queued and waiting nodes, and buffers."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from gradscope.trace.schema import (
    NONE,
    BufferAdded,
    BufferMade,
    Capture,
    Decrement,
    Dependency,
    GraphTask,
    Node,
    NodeBegin,
    Pop,
    Push,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gradscope.analysis.lookups import Ids
    from gradscope.analysis.state.state import TraceStretches
    from gradscope.analysis.state.stretches import Stretches
    from gradscope.trace.schema.declare import Row


@dataclass(frozen=True, slots=True)
class Queued:
    """A node in a ready queue."""

    node: int
    since: int  # the moment
    queue: int
    depth: int  # of nested backwards: deeper ones run first,
    sequence_nr: int  # then the node created last; -1: an AccumulateGrad, which runs first


@dataclass(frozen=True, slots=True)
class Arrived:
    """A gradient that arrived for a node that has not started."""

    source: int  # the node that sent it
    index: int  # which of its outputs
    since: int


@dataclass(frozen=True, slots=True)
class Waiting:
    """A node that still waits for gradients."""

    node: int
    count: int
    came: int  # number of gradients that arrived


@dataclass(frozen=True, slots=True)
class RunningNode:
    """A node that runs, or that was taken from its queue and is about to."""

    node: int
    since: int
    thread: int
    begun: bool


@dataclass(frozen=True, slots=True)
class BufferedGradient:
    """The buffered gradient for one input of a node that has not started."""

    node: int
    input_nr: int
    since: int
    undefined: bool  # None came
    added: int  # number of gradients added to it since,
    in_place: int  # number of these added in place


class BackwardState:
    """The state of a backward right after a moment."""

    def __init__(self, held: TraceStretches, moment: int, task: GraphTask) -> None:
        self._held = held
        self._moment = moment
        self.task = task
        self.number = held.numbers[task.id]

    def _of(self, kind: type[Row], stretches: Stretches, *names: str) -> list[tuple[Any, ...]]:
        """The start and these columns of all rows of this backward that hold at the moment."""
        places = self._places(kind, stretches)
        since = self._held.moments.of(kind)[places]
        columns = [self._column(kind, name)[places].tolist() for name in names]
        return list(zip(since.tolist(), *columns, strict=True))

    def _places(self, kind: type[Row], stretches: Stretches) -> Ids:
        """The rows of this backward that hold at the moment."""
        places = stretches.at(self._moment)
        mine: Ids = places[self._column(kind, "task")[places] == self.task.id]
        return mine

    @cached_property
    def running(self) -> tuple[RunningNode, ...]:
        """Running nodes, outermost first, and nodes taken from the queue but not started."""
        engine, names = self._held.engine, ("node", "thread")
        begun = [
            RunningNode(node, since, thread, begun=True)
            for since, node, thread in self._of(NodeBegin, engine.running, *names)
        ]
        taken = [
            RunningNode(node, since, thread, begun=False)
            for since, node, thread in self._of(Pop, engine.taken, *names)
        ]
        return (*begun, *taken)

    @cached_property
    def queued(self) -> tuple[Queued, ...]:
        """Nodes in ready queues, in the order in which they will be taken."""
        return self.first_queued(len(self._queue[0]))

    @property
    def queued_count(self) -> int:
        return len(self._queue[0])

    def first_queued(self, many: int) -> tuple[Queued, ...]:
        places, numbers = (each[:many] for each in self._queue)
        columns = [self._column(Push, name)[places] for name in ("node", "queue", "depth")]
        node, queue, depth = (each.tolist() for each in columns)
        since = self._held.moments.of(Push)[places].tolist()
        rows = zip(node, since, queue, depth, numbers.tolist(), strict=True)
        return tuple(Queued(*row) for row in rows)

    @cached_property
    def _queue(self) -> tuple[Ids, Ids]:
        """The rows of queued nodes, in queue order, and their sequence numbers."""
        places, nodes = self._places(Push, self._held.engine.queued), self._held.trace.table(Node)
        at = nodes.positions(self._column(Push, "node")[places])
        numbers: Ids = np.zeros(len(places), np.int64)
        numbers[at != NONE] = np.asarray(nodes["sequence_nr"])[at[at != NONE]]
        depth, queue = (self._column(Push, name)[places] for name in ("depth", "queue"))
        since = self._held.moments.of(Push)[places]
        # An AccumulateGrad, whose number is negative here, runs before all others.
        order = np.lexsort((since, -numbers, numbers >= 0, -depth.astype(np.int64), queue))
        return places[order], numbers[order]

    def arrived(self, node: int) -> tuple[Arrived, ...]:
        """Gradients that arrived for a node that has not started, in order."""
        places = self._arrived[self._column(Decrement, "node")[self._arrived] == node]
        since = self._held.moments.of(Decrement)[places].tolist()
        columns = [self._column(Decrement, name)[places].tolist() for name in ("source", "index")]
        return tuple(Arrived(*row) for row in zip(*columns, since, strict=True))

    @cached_property
    def _arrived(self) -> Ids:
        return self._places(Decrement, self._held.engine.arrived)

    @cached_property
    def _came(self) -> dict[int, int]:
        """The number of gradients that arrived for each node that has not started."""
        nodes, many = np.unique(self._column(Decrement, "node")[self._arrived], return_counts=True)
        return dict(zip(nodes.tolist(), many.tolist(), strict=True))

    @cached_property
    def _waiting(self) -> Ids:
        places = self._places(Dependency, self._held.engine.waiting)
        wanted = {*self.task.needed, *self.task.captured}
        if not wanted:
            return places
        return places[np.isin(self._column(Dependency, "node")[places], [*wanted])]

    @property
    def waiting_count(self) -> int:
        """The number of needed nodes that are not ready yet."""
        return len(self._waiting)

    @cached_property
    def waiting(self) -> tuple[Waiting, ...]:
        """Nodes that are not ready yet and have received some gradient."""
        come = np.isin(self._column(Dependency, "node")[self._waiting], [*self._came])
        return tuple(self._each_waiting(self._waiting[come]))

    def all_waiting(self) -> Iterator[Waiting]:
        """All nodes that are not ready yet, as the engine counted them.

        With `inputs=` without nodes that are not needed: their gradients are not recorded.
        """
        return self._each_waiting(self._waiting)

    def _each_waiting(self, places: Ids) -> Iterator[Waiting]:
        for place in places.tolist():
            node, count = (int(self._column(Dependency, name)[place]) for name in ("node", "count"))
            yield Waiting(node, count, self._came.get(node, 0))

    def _column(self, kind: type[Row], name: str) -> Ids:
        return np.asarray(self._held.trace.table(kind)[name])

    @cached_property
    def buffers(self) -> tuple[BufferedGradient, ...]:
        """Gradients that are buffered for nodes that have not started."""
        return self.first_buffers(self.buffer_count)

    @property
    def buffer_count(self) -> int:
        return len(self._kept)

    @cached_property
    def _kept(self) -> Ids:
        return self._places(BufferMade, self._held.engine.kept)

    def first_buffers(self, many: int) -> tuple[BufferedGradient, ...]:
        places = self._kept[:many]
        since = self._held.moments.of(BufferMade)[places].tolist()
        columns = [
            self._column(BufferMade, name)[places] for name in ("node", "input_nr", "undefined")
        ]
        node, nr, undefined = (each.tolist() for each in columns)
        more = self._places(BufferAdded, self._held.engine.added)
        more = more[np.isin(self._column(BufferAdded, "node")[more], columns[0])]
        names = ("node", "input_nr", "in_place")
        rows = zip(*(self._column(BufferAdded, name)[more].tolist() for name in names), strict=True)
        added, in_place = Counter[tuple[int, int]](), Counter[tuple[int, int]]()
        for of_node, of_nr, is_so in rows:
            added[of_node, of_nr] += 1
            in_place[of_node, of_nr] += bool(is_so)
        return tuple(
            BufferedGradient(each, n, when, bool(none), added[each, n], in_place[each, n])
            for each, n, when, none in zip(node, nr, since, undefined, strict=True)
        )

    @cached_property
    def captured(self) -> tuple[tuple[int, int], ...]:
        """Nodes whose gradient was captured for `inputs=`, and the input."""
        rows = self._of(Capture, self._held.engine.captured, "node", "input_nr")
        return tuple((node, nr) for _, node, nr in rows)

    @cached_property
    def progress(self) -> tuple[int, int]:
        """The number of nodes that started, and the total, assuming none raises."""
        begun = self._held.begun_in(self.task.id)
        many = max(len(begun), len(self._foreseen) if self.task.error else 0)
        return int(np.searchsorted(begun, self._moment, side="right")), many

    @property
    def _foreseen(self) -> set[int]:
        """The needed nodes that were counted, queued or started."""
        told = set[int]()
        for kind in (Dependency, Push, NodeBegin):
            mine = self._column(kind, "task") == self.task.id
            told.update(self._column(kind, "node")[mine].tolist())
        needed = {*self.task.needed}
        return told & needed if needed else told
