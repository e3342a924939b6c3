"""The rule that counts and queue of an engine are those predicted from the graph.

# Note [What is compared]
A replay (Note [Replay] in trace/shorthand/replay.py) predicts every count, push, pop, decrement,
buffer, skip and capture of a graph task, in order. It receives only what cannot be predicted: which
gradients were None, and which input of a node was requested. We compare graph tasks of our own
engine (another may order nodes of one priority differently) that ended without an error and had one
queue, including everything that ran inside them: several devices run concurrently, and what a
failed task leaves in a queue is discarded at an unknown time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from gradscope.trace.schema.declare import NONE, Event
from gradscope.trace.schema.events import (
    BufferAdded,
    BufferMade,
    Capture,
    Decrement,
    Dependency,
    Pop,
    Push,
    Skipped,
    TaskBegin,
)
from gradscope.trace.schema.tables import Edge, GraphTask, Node
from gradscope.trace.shorthand.replay import Popped, Ready, ReplayBackward, ReplayGraph, graph_of
from gradscope.trace.spec.rule import RuleFault, rule

if TYPE_CHECKING:
    from gradscope.trace.spec.checked_trace import CheckedTrace, JudgedEvents

OWN = "gradscope.runtime"
"""The producer of traces of our own engine."""

SAYS: dict[type[Event], tuple[str, ...]] = {
    Dependency: ("count",),
    Push: ("length",),
    Pop: ("length",),
    Capture: ("input_nr",),
    Skipped: (),
    Decrement: ("source", "index", "remaining"),
    BufferMade: ("input_nr",),
    BufferAdded: ("input_nr",),
}
"""The kinds of events that are compared, and their columns."""

Said: TypeAlias = tuple[type[Event], int, tuple[int, ...]]
"""A kind of event, its node, and the values of its columns."""


@rule
def what_follows_from_the_graph_is_what_happened(facts: CheckedTrace) -> Iterator[RuleFault]:
    """Our engine counts, queues, passes on, skips and captures as the graph and `inputs=` imply."""
    tasks = facts.once(_Tasks)
    queues: defaultdict[int, list[Ready]] = defaultdict(list)
    walks: dict[int, Iterator[Said] | None] = {}
    for seq, task, queue, said in _events(facts, tasks.compared):
        if task not in walks:
            walks[task] = tasks.walk(task, queues[queue])
        walk = walks[task]
        foretold = None if walk is None else next(walk, None)
        if walk is not None and foretold != said:
            walks[task] = None
            yield RuleFault(_otherwise(facts, task, said, foretold), said[0].TABLE, seq=seq)
            # This task and its replay leave different nodes in the queue.
            for other in tasks.beside(task):
                walks[other] = None


def compared(facts: CheckedTrace) -> set[int]:
    """The graph tasks that are compared. See Note [What is compared]."""
    return facts.once(_Tasks).compared


def _otherwise(facts: CheckedTrace, task: int, said: Said, foretold: Said | None) -> str:
    def words(what: Said) -> str:
        kind, node, values = what
        columns = ", ".join(f"{c} {v}" for c, v in zip(SAYS[kind], values, strict=True))
        return f"{kind.TABLE.removeprefix('event.')} of {facts.node(node)}, {columns}".rstrip(", ")

    rules = "nothing more" if foretold is None else words(foretold)
    return f"graph task {task} has {words(said)}, expected from the graph: {rules}"


def _events(facts: CheckedTrace, compared: set[int]) -> Iterator[tuple[int, int, int, Said]]:
    """The events of these tasks in order of `seq`, with the numbers of their task and thread."""
    rows: list[tuple[int, int, int, Said]] = []
    wanted = np.array(sorted(compared), np.int64)
    for kind, names in SAYS.items():
        stretch = facts.of(kind)
        stretch = stretch.where(np.isin(stretch["task"], wanted))
        values = [stretch[name].tolist() for name in names]
        said = zip(*values, strict=True) if values else [()] * len(stretch)
        where = (stretch[name].tolist() for name in ("seq", "task", "thread", "node"))
        rows += [
            (seq, task, thread, (kind, node, cells))
            for seq, task, thread, node, cells in zip(*where, said, strict=True)
        ]
    yield from sorted(rows, key=lambda row: row[0])


class _Tasks:
    """The graph tasks of a trace that are compared, and what a replay needs to know about each."""

    def __init__(self, facts: CheckedTrace) -> None:
        self._graph = _graph(facts)
        table = facts.trace.table(GraphTask)
        self._row = {id: place for place, id in enumerate(table["id"].tolist())}
        self._depth, self._accumulates = table["depth"], table["accumulate_grad"]
        self._inputs = table.ragged("inputs").tuples()
        parent = dict(zip(table["id"].tolist(), table["parent"].tolist(), strict=True))
        self._family: defaultdict[int, set[int]] = defaultdict(set)
        self._eldest: dict[int, int] = {}
        for task in parent:
            eldest, met = task, {task}
            while parent.get(eldest, NONE) in parent and parent[eldest] not in met:
                eldest = parent[eldest]
                met.add(eldest)
            self._eldest[task] = eldest
            self._family[eldest].add(task)
        self._root = _first(facts.of(Push), "node")
        self._captured = _captured(facts.of(Capture))
        self._undefined = _undefined(facts)
        strange = self._strange(facts)
        own = facts.trace.meta.get("producer") == OWN
        self.compared = {
            task for task, eldest in self._eldest.items()
            if own and task in self._root and not self._family[eldest] & strange
        }  # fmt: skip

    def beside(self, task: int) -> set[int]:
        """The tasks that share a queue with this one, including itself."""
        return self._family[self._eldest[task]]

    def _strange(self, facts: CheckedTrace) -> set[int]:
        """Tasks that are not compared. See Note [What is compared]."""
        pushes = facts.of(Push)
        pairs = {*zip(pushes["task"].tolist(), pushes["queue"].tolist(), strict=True)}
        threads = {
            pair
            for kind in (Push, Pop)
            for pair in zip(facts.of(kind)["task"].tolist(), facts.of(kind)["thread"].tolist(),
                            strict=True)
        }  # fmt: skip
        several = {
            task
            for found in (pairs, threads)
            for task, many in _counts(task for task, _ in found).items()
            if many > 1
        }
        empty = set(pushes["task"][pushes["node"] == NONE].tolist())
        begun = set(facts.of(TaskBegin)["task"].tolist())
        failed = set(facts.failed_tasks.tolist())
        return several | empty | failed | (self._row.keys() - begun)

    def walk(self, task: int, queue: list[Ready]) -> Iterator[Said] | None:
        """The predicted events of a task in order; None if the trace lacks part of its graph."""
        place = self._row[task]
        nrs = {node: iter(found) for node, found in self._captured.get(task, {}).items()}
        inputs = [(node, next(nrs.get(node, iter(())), 0)) for node in self._inputs[place]]
        try:
            backward = ReplayBackward(
                self._graph, self._root[task], inputs, accumulates=bool(self._accumulates[place]),
                depth=int(self._depth[place]), queue=queue,
                undefined=self._undefined.get(task, ()),
            )  # fmt: skip
        except KeyError:
            return None
        return _said(backward, self._root[task])


def _said(backward: ReplayBackward, root: int) -> Iterator[Said]:
    """The steps of a replay as events."""
    for node, count in backward.counts.items():
        yield Dependency, node, (count,)
    yield Push, root, (backward.begin(),)
    source = root
    for each in backward.walk():
        if isinstance(each, Popped):
            source = each.node
            yield Pop, source, (each.length,)
            for nr in each.captured:
                yield Capture, source, (nr,)
            if not each.runs:
                yield Skipped, source, ()
        elif each.wanted:
            yield Decrement, each.node, (source, each.index, each.left)
            yield (BufferAdded if each.added else BufferMade), each.node, (each.nr,)
            if each.length >= 0:
                yield Push, each.node, (each.length,)


def _graph(facts: CheckedTrace) -> ReplayGraph:
    nodes, links = facts.trace.table(Node), facts.trace.table(Edge)
    rows = [
        zip(*(table[name].tolist() for name in names), strict=True)
        for table, names in (
            (nodes, ("id", "sequence_nr", "topological_nr")),
            (links, ("node", "index", "next", "input_nr")),
        )
    ]
    return graph_of(*rows)[0]  # the destinations of nodes that are left out are not known


def _first(stretch: JudgedEvents, column: str) -> dict[int, int]:
    """The value of each task's first event."""
    pairs = zip(stretch["task"].tolist(), stretch[column].tolist(), strict=True)
    return dict(reversed([*pairs]))


def _counts(values: Iterator[int]) -> Mapping[int, int]:
    found: defaultdict[int, int] = defaultdict(int)
    for value in values:
        found[value] += 1
    return found


def _captured(captures: JudgedEvents) -> dict[int, dict[int, list[int]]]:
    """For each task and node, the inputs that were captured, in order."""
    found: dict[int, dict[int, list[int]]] = {}
    columns = (captures[name].tolist() for name in ("task", "node", "input_nr"))
    for task, node, nr in zip(*columns, strict=True):
        found.setdefault(task, {}).setdefault(node, []).append(nr)
    return found


def _undefined(facts: CheckedTrace) -> dict[int, set[tuple[int, int]]]:
    """For each task, the gradients that were None: their node, and which of its outputs."""
    sent, kept = facts.of(Decrement), [facts.of(BufferMade), facts.of(BufferAdded)]
    found: dict[int, set[tuple[int, int]]] = {}
    seq, undefined, task = (
        np.concatenate([part[name] for part in kept]) for name in ("seq", "undefined", "task")
    )
    order: Any = np.lexsort((seq, task))
    other = np.lexsort((sent["seq"], sent["task"]))
    if not np.array_equal(task[order], sent["task"][other]):
        return found  # another rule reports this
    for place in other[undefined[order]].tolist():
        pair = int(sent["source"][place]), int(sent["index"][place])
        found.setdefault(int(sent["task"][place]), set()).add(pair)
    return found
