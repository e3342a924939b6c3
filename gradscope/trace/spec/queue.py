"""Rules about the ready queues, checked by repeating all pushes and pops."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from gradscope.trace.schema.declare import NONE
from gradscope.trace.schema.events import Error, Pop, Push, TaskEnd
from gradscope.trace.schema.tables import Node
from gradscope.trace.spec.checked_trace import lookup
from gradscope.trace.spec.rule import RuleFault, rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gradscope.trace.spec.checked_trace import CheckedTrace, JudgedEvents

FOREMOST: Final = 2**63
"""Replaces the sequence_nr of AccumulateGrad, which runs as soon as it is ready."""


class Item(NamedTuple):
    """A node in a queue."""

    task: int
    node: int


Key: TypeAlias = tuple[int, int]
"""Reentrant depth and sequence_nr, negated: the first node has the smallest key."""

EMPTY: Final = (-(2**63), 0)
"""The key of a task without a node, which only wakes a thread: it is ahead of all others."""


@dataclass(slots=True)
class Queue:
    """The contents of a ready queue according to its pushes and pops."""

    heap: list[tuple[Key, Item]] = field(default_factory=list)
    keys: dict[Item, Key] = field(default_factory=dict)  # of the items in it
    doubtful: int = 0  # items left by failed graph tasks, discarded at an unknown time
    abandoned: set[Item] = field(default_factory=set)  # these items
    failed: set[int] = field(default_factory=set)  # the tasks that have failed,
    untold: set[int] = field(default_factory=set)  # and those that may have pushed one more item

    def push(self, item: Item, key: Key) -> None:
        heappush(self.heap, (key, item))
        self.keys[item] = key

    def foremost(self) -> Item | None:
        """The item that must be popped next."""
        while self.heap and self.keys.get(self.heap[0][1]) != self.heap[0][0]:
            heappop(self.heap)  # popped out of order, or discarded
        return self.heap[0][1] if self.heap else None

    def fail(self, task: int) -> None:
        """Mark the items of a failed graph task, which will not run."""
        for item in [item for item in self.keys if item.task == task]:
            del self.keys[item]
            self.abandoned.add(item)
            self.doubtful += 1
        if task not in self.failed:
            self.failed.add(task)
            self.untold.add(task)
            self.doubtful += 1

    def fits(self, length: int) -> bool:
        """Whether the queue can have this length; from now on it has."""
        doubtful = length - len(self.keys)
        good = 0 <= doubtful <= self.doubtful
        self.doubtful = max(doubtful, 0)
        return good


@dataclass(slots=True)
class QueueReplay:
    """The faults found by repeating all pushes and pops, by rule."""

    pushed: list[RuleFault] = field(default_factory=list)
    lengths: list[RuleFault] = field(default_factory=list)
    order: list[RuleFault] = field(default_factory=list)


def replay(facts: CheckedTrace) -> QueueReplay:
    """Repeat all pushes and pops. If rows were dropped, queues cannot be checked."""
    found = QueueReplay()
    if facts.dropped:
        return found
    queues: defaultdict[int, Queue] = defaultdict(Queue)
    for move in _moves(facts):
        if move.kind == FAIL:
            for queue in queues.values():
                queue.fail(move.item.task)
            continue
        queue = queues[move.queue]
        if move.kind == PUSH:
            _push(facts, queue, move, found)
        else:
            _pop(facts, queue, move, found)
        if not queue.fits(move.length):
            message = (
                f"queue {move.queue} has {len(queue.keys)} nodes, but the event says {move.length}"
            )
            found.lengths.append(RuleFault(message, TABLES[move.kind], seq=move.seq))
    if facts.complete:
        for number, queue in queues.items():
            for item in queue.keys:
                message = f"{facts.node(item.node)} is never popped from queue {number}"
                found.pushed.append(RuleFault(message, Push.TABLE, id=item.node))
    return found


def _push(facts: CheckedTrace, queue: Queue, move: QueueMove, found: QueueReplay) -> None:
    if move.item in queue.keys:
        message = f"{facts.node(move.item.node)} is pushed again before it was popped"
        found.pushed.append(RuleFault(message, Push.TABLE, seq=move.seq))
    queue.push(move.item, move.key)


def _pop(facts: CheckedTrace, queue: Queue, move: QueueMove, found: QueueReplay) -> None:
    key = queue.keys.get(move.item)
    if key is None and move.item in queue.abandoned:
        queue.abandoned.remove(move.item)  # explicitly discarded
        queue.doubtful -= 1
        return
    if key is None and move.item.task in queue.untold:
        queue.untold.remove(move.item.task)  # likewise; its push was interrupted
        queue.doubtful -= 1
        return
    if key is None:
        message = f"{facts.node(move.item.node)} is popped from queue {move.queue} but not in it"
        found.pushed.append(RuleFault(message, Pop.TABLE, seq=move.seq))
        return
    foremost = queue.foremost()
    if foremost is not None and queue.keys[foremost] < key:
        message = f"{facts.node(move.item.node)} is popped before {facts.node(foremost.node)}"
        found.order.append(RuleFault(message, Pop.TABLE, seq=move.seq))
    del queue.keys[move.item]


PUSH, POP, FAIL = range(3)
TABLES: Final = (Push.TABLE, Pop.TABLE, TaskEnd.TABLE)


class QueueMove(NamedTuple):
    """Something that changes a queue."""

    seq: int
    kind: int
    item: Item
    queue: int
    length: int
    key: Key


def _moves(facts: CheckedTrace) -> list[QueueMove]:
    pushes, pops = facts.of(Push), facts.of(Pop)
    nodes = facts.trace.table(Node)
    rank = lookup(nodes.array("id"), nodes.array("sequence_nr"), pushes["node"], missing=0)
    moves = [
        QueueMove(seq, PUSH, Item(task, node), queue, length, _key(node, depth, number))
        for seq, task, node, queue, length, depth, number in zip(
            *_lists(pushes, "seq", "task", "node", "queue", "length", "depth"),
            rank.tolist(),
            strict=True,
        )
    ]
    moves += [
        QueueMove(seq, POP, Item(task, node), queue, length, EMPTY)
        for seq, task, node, queue, length in zip(
            *_lists(pops, "seq", "task", "node", "queue", "length"), strict=True
        )
    ]
    ends, errors = facts.of(TaskEnd), facts.of(Error)
    failures = {*zip(*_lists(errors, "seq", "task"), strict=True)}
    failures |= {
        (seq, task)
        for seq, task, bad in zip(*_lists(ends, "seq", "task", "failed"), strict=True)
        if bad
    }
    moves += [QueueMove(seq, FAIL, Item(task, NONE), NONE, 0, EMPTY) for seq, task in failures]
    return sorted(moves)


def _key(node: int, depth: int, sequence_nr: int) -> Key:
    if node == NONE:
        return EMPTY
    return -depth, -(FOREMOST if sequence_nr == NONE else sequence_nr)


def _lists(stretch: JudgedEvents, *columns: str) -> list[list[int]]:
    return [stretch[column].tolist() for column in columns]


@rule
def pops_were_pushed(facts: CheckedTrace) -> Iterator[RuleFault]:
    """What is popped from a queue was pushed to it; in a complete trace nothing is left."""
    yield from facts.once(replay).pushed


@rule
def queue_lengths_add_up(facts: CheckedTrace) -> Iterator[RuleFault]:
    """A push increases the length of its queue by one, a pop decreases it by one."""
    yield from facts.once(replay).lengths


@rule
def pops_take_the_foremost(facts: CheckedTrace) -> Iterator[RuleFault]:
    """A pop takes the deepest reentrant level first, then AccumulateGrad, then the newest node."""
    yield from facts.once(replay).order
