"""Why the engine ran a node when it did: what it waited for, what ran before it, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from gradscope.analysis.identity.backwards import backward_numbers, backwards
from gradscope.analysis.identity.leaves import ACCUMULATE_GRAD
from gradscope.analysis.identity.sites import Site, site_of, site_of_row
from gradscope.analysis.lookups import member
from gradscope.analysis.timing.durations import node_runs
from gradscope.analysis.timing.own_work import OwnWorkTimes
from gradscope.trace.schema import (
    NONE,
    Decrement,
    Dependency,
    GraphTask,
    Node,
    NodeBegin,
    NodeEnd,
    Order,
    Pop,
    Push,
    Skipped,
)
from gradscope.trace.trace import Trace


class Because(StrEnum):
    """Why a node ran before another, or after it."""

    UNDER_WAY = "under way"  # when the other became ready
    LEAF = "leaf"  # AccumulateGrad runs as soon as it is ready
    NEWER = "newer"  # a higher sequence number: made later in the forward pass
    DEEPER = "deeper"  # of a backward inside another
    OLDER = "older"  # a lower sequence number
    TIE = "tie"  # the order in which a heap returns equal entries


@dataclass(frozen=True, slots=True)
class Other:
    """Another node that was in the queue, or running."""

    node: int
    sequence_nr: int
    site: Site
    because: Because


@dataclass(frozen=True, slots=True)
class GradientArrival:
    """A gradient that arrived for the node."""

    node: int  # that sent it
    site: Site
    position: int  # which node of the backward the sender was
    remaining: int  # number of gradients still missing


@dataclass(frozen=True, slots=True)
class Turn:
    """One run of a node in one backward."""

    backward: int  # its number
    called: Site
    order: Order | None
    root: bool
    needed: int  # gradients; NONE if they were not counted
    arrivals: tuple[GradientArrival, ...]
    position: int  # 1 for the first node that ran; NONE if it did not run
    of: int  # number of nodes that ran
    queue: int
    ready: int  # when; NONE when no push was recorded
    begin: int
    end: int
    queued_ns: int  # excluding gradscope's own work
    before: tuple[Other, ...]  # nodes that ran while it was ready
    passed: tuple[Other, ...]  # other ready nodes when it was popped
    skipped: bool  # it was not needed for `inputs=`


@dataclass(frozen=True, slots=True)
class Brief:
    """When the node ran in another backward."""

    backward: int
    position: int  # NONE if it did not run
    of: int
    queued_ns: int  # NONE when that was not recorded


@dataclass(frozen=True, slots=True)
class Turns:
    """All runs of one node."""

    node: int
    name: str
    sequence_nr: int
    site: Site
    backwards: int
    recorded: bool  # whether runs of nodes were recorded
    first: Turn | None  # in the requested backward, or the first that reached it
    others: tuple[Brief, ...]


def turns_of(trace: Trace, node: int, task: int = NONE) -> Turns:
    """The runs of a node in all backwards that reached it, that of this task first."""
    row = trace.table(Node).row(node)
    numbers = backward_numbers(trace)
    came = set[int]()
    for kind in (NodeBegin, Skipped, Push, Dependency):
        table = trace.table(kind)
        came.update(table["task"][table["node"] == node].tolist())
    tasks = [each for each in backwards(trace) if each.id in came]
    tasks.sort(key=lambda each: each.id != task)
    return Turns(
        node=node,
        name=row.name,
        sequence_nr=row.sequence_nr,
        site=site_of(trace, row.stack),
        backwards=len(numbers),
        recorded=len(trace.table(NodeBegin)) > 0 or trace.meta.get("level") != "graph",
        first=_Backward(trace, tasks[0]).turn(node, numbers[tasks[0].id]) if tasks else None,
        others=tuple(_briefly(trace, node, tasks[1:], numbers)),
    )


def _briefly(
    trace: Trace, node: int, tasks: Sequence[GraphTask], numbers: Mapping[int, int]
) -> Iterator[Brief]:
    if not tasks:
        return
    runs, pushes, own = node_runs(trace), trace.table(Push), OwnWorkTimes(trace)
    of = Counter(runs.task.tolist())
    mine = np.flatnonzero(runs.node == node)
    columns = (runs.task, runs.position, runs.begin, runs.thread)
    ran = {row[0]: row for row in zip(*(c[mine].tolist() for c in columns), strict=True)}
    pushed = pushes["node"] == node
    ready = dict(zip(pushes["task"][pushed].tolist(), pushes["t"][pushed].tolist(), strict=True))
    for task in tasks:
        _, position, begin, thread = ran.get(task.id, (NONE, NONE, NONE, NONE))
        queued = NONE
        if task.id in ready and begin != NONE:
            own_ns = own.on((thread,), ready[task.id], begin)
            queued = max(begin - ready[task.id] - own_ns, 0)
        yield Brief(numbers[task.id], position, of[task.id], queued)


class _Backward:
    """One backward, replayed until a node runs."""

    def __init__(self, trace: Trace, task: GraphTask) -> None:
        self._trace = trace
        self._task = task
        kinds = (Push, Pop, Decrement, NodeBegin, NodeEnd, Dependency, Skipped)
        self._events = list(trace.events(*kinds, task=task.id))

    def turn(self, node: int, number: int) -> Turn:
        position = {
            e.node: place
            for place, e in enumerate((e for e in self._events if isinstance(e, NodeBegin)), 1)
        }
        mine = [e for e in self._events if e.node == node]
        push = next((e for e in mine if isinstance(e, Push)), None)
        begin = next((e for e in mine if isinstance(e, NodeBegin)), None)
        end = next((e for e in mine if isinstance(e, NodeEnd)), None)
        counted = [e.count for e in mine if isinstance(e, Dependency)]
        before, passed = self._queue(node, push)
        ready, start = (push.t if push else NONE), (begin.t if begin else NONE)
        return Turn(
            backward=number,
            called=site_of(self._trace, self._task.stack),
            order=member(Order, self._task.order),
            root=node in self._task.roots,
            needed=counted[-1] if counted else NONE,
            arrivals=tuple(
                GradientArrival(
                    e.source,
                    site_of_row(self._trace, Node, e.source),
                    position.get(e.source, NONE),
                    e.remaining,
                )
                for e in mine
                if isinstance(e, Decrement)
            ),
            position=position.get(node, NONE),
            of=len(position),
            queue=push.queue if push else NONE,
            ready=ready,
            begin=start,
            end=end.t if end else NONE,
            queued_ns=self._queued(ready, start, begin.thread if begin else NONE),
            before=tuple(before),
            passed=tuple(passed),
            skipped=any(isinstance(e, Skipped) for e in mine),
        )

    def _queued(self, ready: int, begin: int, thread: int) -> int:
        if NONE in (ready, begin):
            return NONE
        return max(begin - ready - OwnWorkTimes(self._trace).on((thread,), ready, begin), 0)

    def _queue(self, node: int, push: Push | None) -> tuple[list[Other], list[Other]]:
        """Nodes that ran while it was ready, and nodes left in its queue then."""
        if push is None:
            return [], []
        waiting: dict[int, Push] = {}
        under_way: list[int] = []
        before: list[Other] = []
        for event in self._events:
            if isinstance(event, Push) and event.queue == push.queue:
                waiting[event.node] = event
                if event is push:
                    before += [self._other(each, None, push) for each in under_way]
            elif isinstance(event, Pop) and event.queue == push.queue:
                taken = waiting.pop(event.node, None)
                if event.node == node:
                    return before, [self._other(n, p, push) for n, p in waiting.items()]
                if taken is not None and node in waiting:
                    before.append(self._other(event.node, taken, push))
            elif isinstance(event, NodeBegin):
                under_way.append(event.node)
            elif isinstance(event, NodeEnd) and event.node in under_way:
                under_way.remove(event.node)
        return before, []

    def _other(self, node: int, its: Push | None, mine: Push) -> Other:
        sequence_nr = self._sequence_nr(node)
        because = Because.UNDER_WAY if its is None else self._because(its, mine)
        return Other(node, sequence_nr, site_of_row(self._trace, Node, node), because)

    def _because(self, its: Push, mine: Push) -> Because:
        """Why the other node runs before or after this one."""
        if its.depth != mine.depth:
            return Because.DEEPER if its.depth > mine.depth else Because.OLDER
        leaves = self._is_leaf(its.node), self._is_leaf(mine.node)
        if leaves[0] and not leaves[1]:
            return Because.LEAF
        theirs, own = self._sequence_nr(its.node), self._sequence_nr(mine.node)
        if theirs == own:
            return Because.TIE
        return Because.NEWER if theirs > own and not leaves[1] else Because.OLDER

    def _is_leaf(self, node: int) -> bool:
        nodes = self._trace.table(Node)
        return nodes.has(node) and nodes.row(node).name == ACCUMULATE_GRAD

    def _sequence_nr(self, node: int) -> int:
        nodes = self._trace.table(Node)
        return nodes.row(node).sequence_nr if nodes.has(node) else NONE
