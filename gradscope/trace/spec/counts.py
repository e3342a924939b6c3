"""Rules about the gradients a node waits for before it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gradscope.trace.schema.declare import NONE
from gradscope.trace.schema.events import (
    Capture,
    Decrement,
    Dependency,
    NodeBegin,
    NodeEnd,
    Pop,
    Push,
    Skipped,
)
from gradscope.trace.schema.tables import Edge
from gradscope.trace.spec.checked_trace import groups, running, timeline
from gradscope.trace.spec.rule import RuleFault, rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gradscope.trace.ragged import Array
    from gradscope.trace.spec.checked_trace import CheckedTrace, JudgedEvents, Timeline


def _waiting(facts: CheckedTrace) -> Timeline:
    """Number of gradients each node of each graph task still waits for."""
    counted, arrived = facts.of(Dependency), facts.of(Decrement)
    parts: list[tuple[JudgedEvents, Array | int]] = [(counted, counted["count"]), (arrived, -1)]
    parts += [(facts.of(Push), 0), (facts.of(NodeBegin), 0)]
    return timeline(parts, by=["task", "node"])


@rule
def counts_go_down_by_one(facts: CheckedTrace) -> Iterator[RuleFault]:
    """Each gradient that arrives at a node decrements its count, which never becomes negative."""
    counted, arrived = facts.of(Dependency), facts.of(Decrement)
    if not len(counted):
        return
    line = facts.once(_waiting)
    of_arrivals = line.kind == 1
    left, place = line.after[of_arrivals], line.place[of_arrivals]
    said = arrived["remaining"][place]
    for wrong in np.flatnonzero((left != said) | (left < 0)):
        at = place[wrong]
        message = (
            f"{facts.node(arrived['node'][at])} waits for {left[wrong]} more gradients, "
            f"but the event says {said[wrong]}"
        )
        yield RuleFault(message, arrived.table, seq=int(arrived["seq"][at]))


@rule
def nodes_are_counted_once(facts: CheckedTrace) -> Iterator[RuleFault]:
    """A graph task counts the gradients of a node once, and before any of them arrives."""
    counted = facts.of(Dependency)
    for place in _again(counted, "task", "node"):
        message = f"the gradients of {facts.node(counted['node'][place])} are counted twice"
        yield RuleFault(message, counted.table, seq=int(counted["seq"][place]))
    for place in np.flatnonzero(counted["count"] < 1):
        message = (
            f"{facts.node(counted['node'][place])} waits for {counted['count'][place]} gradients"
        )
        yield RuleFault(message, counted.table, seq=int(counted["seq"][place]))


@rule
def nodes_are_ready_when_pushed_and_run(facts: CheckedTrace) -> Iterator[RuleFault]:
    """A node enters a queue, and runs, only after all its gradients have arrived."""
    if not len(facts.of(Dependency)):
        return
    line = facts.once(_waiting)
    for place in np.flatnonzero((line.kind >= 2) & (line.after > 0)):
        events, does = ((facts.of(Push), "is pushed"), (facts.of(NodeBegin), "runs"))[
            line.kind[place] - 2
        ]
        node = events["node"][line.place[place]]
        message = (
            f"{facts.node(node)} {does} while it still waits for {line.after[place]} gradients"
        )
        yield RuleFault(message, events.table, seq=int(line.seq[place]))


@rule
def nodes_run_after_their_pop(facts: CheckedTrace) -> Iterator[RuleFault]:
    """A node runs, or is skipped, after a thread popped it from a queue."""
    pops, begins, skips = facts.of(Pop), facts.of(NodeBegin), facts.of(Skipped)
    if not len(pops):
        return
    line = timeline([(pops, 1), (begins, -1), (skips, -1)], by=["task", "node"])
    for place in np.flatnonzero(line.after < 0):
        events = (pops, begins, skips)[line.kind[place]]
        message = f"{facts.node(events['node'][line.place[place]])} runs without having been popped"
        yield RuleFault(message, events.table, seq=int(line.seq[place]))


@rule
def nodes_run_once_in_a_task(facts: CheckedTrace) -> Iterator[RuleFault]:
    """A graph task runs each node at most once."""
    begins = facts.of(NodeBegin)
    for place in _again(begins, "task", "node"):
        message = (
            f"{facts.node(begins['node'][place])} runs again in graph task {begins['task'][place]}"
        )
        yield RuleFault(message, begins.table, seq=int(begins["seq"][place]))


def _again(events: JudgedEvents, *columns: str) -> Array:
    """Indices of the events that are not the first of their group."""
    group = groups(events[column] for column in columns)
    return np.flatnonzero(running(group, np.ones(len(events), np.int64)) > 1)


@rule
def gradients_go_along_edges(facts: CheckedTrace) -> Iterator[RuleFault]:
    """A gradient arrives along an edge of the graph, from a node that has run."""
    arrived, edges = facts.of(Decrement), facts.trace.table(Edge)
    sent = arrived["source"] != NONE
    along = ["node", "index", "next"]
    every = groups(
        np.concatenate([edges.array(name), arrived[column]])
        for name, column in zip(along, ("source", "index", "node"), strict=True)
    )
    known = np.isin(every[len(edges) :], every[: len(edges)])
    for place in np.flatnonzero(sent & ~known):
        message = (
            f"there is no edge from output {arrived['index'][place]} of "
            f"{facts.node(arrived['source'][place])} to {facts.node(arrived['node'][place])}"
        )
        yield RuleFault(message, arrived.table, seq=int(arrived["seq"][place]))
    for place in _again_along(arrived, sent):
        message = f"a second gradient along one edge, for {facts.node(arrived['node'][place])}"
        yield RuleFault(message, arrived.table, seq=int(arrived["seq"][place]))


def _again_along(arrived: JudgedEvents, sent: Array) -> Array:
    again = _again(arrived, "task", "source", "index")
    return again[sent[again]]


@rule
def gradients_come_from_nodes_that_ran(facts: CheckedTrace) -> Iterator[RuleFault]:
    """A node passes its gradients on after it has run."""
    ends, arrived = facts.of(NodeEnd), facts.of(Decrement)
    if not len(ends):
        return
    sources = type(arrived)(arrived.table, {**arrived.data, "node": arrived["source"]})
    line = timeline([(ends, 1), (sources, 0)], by=["task", "node"])
    for place in np.flatnonzero((line.kind == 1) & (line.after == 0)):
        source = sources["node"][line.place[place]]
        if source != NONE:
            message = f"{facts.node(source)} passes a gradient on before it has run"
            yield RuleFault(message, arrived.table, seq=int(line.seq[place]))


@rule
def whole_backwards_run_every_node(facts: CheckedTrace) -> Iterator[RuleFault]:
    """A graph task without an error and without `inputs=` runs every node it reaches."""
    begins = facts.of(NodeBegin)
    if not len(begins):
        return
    done = [begins, facts.of(Skipped), facts.of(Capture)]
    for kind, what in ((Dependency, "counted"), (Pop, "popped")):
        events = facts.of(kind)
        every = groups(
            np.concatenate([part[name] for part in (events, *done)]) for name in ("task", "node")
        )
        ran = np.isin(every[: len(events)], every[len(events) :])
        named = (events["node"] != NONE) & np.isin(events["task"], facts.full_tasks)
        for place in np.flatnonzero(named & ~ran):
            message = f"{facts.node(events['node'][place])} is {what} and never runs"
            yield RuleFault(message, events.table, seq=int(events["seq"][place]))
