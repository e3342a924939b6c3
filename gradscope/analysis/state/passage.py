"""Ranges of the engine from one event to another: waiting, queued, running, buffered."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from gradscope.analysis.state.stretches import Stretches, first_after
from gradscope.trace.schema import (
    NONE,
    BufferAdded,
    BufferMade,
    Capture,
    Decrement,
    Dependency,
    GraphTask,
    HookBegin,
    HookEnd,
    NodeBegin,
    NodeEnd,
    Pop,
    Push,
    Skipped,
    TaskBegin,
    TaskEnd,
    Wait,
    Wake,
)

if TYPE_CHECKING:
    from gradscope.analysis.lookups import Ids
    from gradscope.analysis.state.moments import Moments
    from gradscope.trace.schema.declare import Event
    from gradscope.trace.trace import Trace

OF_NODES = (
    Dependency, Push, Pop, NodeBegin, NodeEnd, Skipped, Decrement, BufferMade, BufferAdded,
    HookBegin, HookEnd, Capture,
)  # fmt: skip
"""Events about a node of a backward."""


class Passage:
    """Ranges of the engine; the rows of each are positions in the table named first."""

    def __init__(self, trace: Trace, moments: Moments) -> None:
        self._trace = trace
        self._moments = moments
        self._keys = _keys_of_nodes(trace)

    @cached_property
    def tasks(self) -> Stretches:
        """GraphTask: running backwards."""
        table = self._trace.table(GraphTask)
        return Stretches(self._begun_of_tasks, self.ends_of_tasks(np.asarray(table["id"])))

    @cached_property
    def _begun_of_tasks(self) -> Ids:
        table, told = self._trace.table(GraphTask), self._trace.table(TaskBegin)
        found = self._moments.since(table["begin"])
        position = table.positions(told["task"])
        found[position[position != NONE]] = self._moments.of(TaskBegin)[position != NONE]
        return found

    @cached_property
    def _ended_of_tasks(self) -> Ids:
        table, told = self._trace.table(GraphTask), self._trace.table(TaskEnd)
        found = self._moments.since(table["end"])
        position = table.positions(told["task"])
        found[position[position != NONE]] = self._moments.of(TaskEnd)[position != NONE]
        return found

    def ends_of_tasks(self, tasks: Ids) -> Ids:
        """The end of each of these backwards; after all moments if there is none."""
        table, last = self._trace.table(GraphTask), len(self._moments)
        if not len(table):
            return np.full(len(tasks), last, np.int64)
        position = table.positions(tasks)
        return np.where(position == NONE, last, self._ended_of_tasks[position])

    # -- of nodes -----------------------------------------------------------------------------

    @cached_property
    def waiting(self) -> Stretches:
        """Dependency: nodes that were counted, and are not ready or not needed."""
        return self._until(Dependency, Push, Skipped)

    @cached_property
    def queued(self) -> Stretches:
        """Push: nodes in a queue."""
        return self._until(Push, Pop)

    @cached_property
    def taken(self) -> Stretches:
        """Pop: nodes taken from their queue, not started and not skipped."""
        return self._until(Pop, NodeBegin, Skipped)

    @cached_property
    def running(self) -> Stretches:
        """NodeBegin: running nodes."""
        return self._until(NodeBegin, NodeEnd)

    @cached_property
    def arrived(self) -> Stretches:
        """Decrement: gradients that arrived for a node that has not started."""
        return self._until(Decrement, NodeBegin, Skipped)

    @cached_property
    def kept(self) -> Stretches:
        """BufferMade: gradients that are buffered until their node starts."""
        return self._until(BufferMade, NodeBegin, Skipped)

    @cached_property
    def added(self) -> Stretches:
        """BufferAdded: additions to these buffers."""
        return self._until(BufferAdded, NodeBegin, Skipped)

    @cached_property
    def captured(self) -> Stretches:
        """Capture: gradients that are returned when their backward ends."""
        return self._until(Capture)

    @cached_property
    def hooks(self) -> Stretches:
        """HookBegin: running hooks."""
        return self._until(HookBegin, HookEnd)

    @cached_property
    def asleep(self) -> Stretches:
        """Wait: sleeping threads."""
        waits, wakes = self._trace.table(Wait), self._trace.table(Wake)
        since = self._moments.of(Wait)
        last = np.full(len(waits), len(self._moments), np.int64)
        until = first_after(waits["thread"], since, wakes["thread"], self._moments.of(Wake), last)
        return Stretches(since, until)

    def _until(self, begins: type[Event], *ends: type[Event]) -> Stretches:
        """Ranges from an event to the next of others for the same node and backward."""
        since = self._moments.of(begins)
        until = self.ends_of_tasks(np.asarray(self._trace.table(begins)["task"]))
        for each in ends:
            until = np.minimum(until, self.next_of(begins, each))
        return Stretches(since, np.maximum(until, since))

    def next_of(self, begins: type[Event], ends: type[Event]) -> Ids:
        """For each event, the next event of another kind for the same node and backward."""
        since = self._moments.of(begins)
        never = np.full(len(since), len(self._moments), np.int64)
        return first_after(
            self._keys[begins], since, self._keys[ends], self._moments.of(ends), never
        )


def _keys_of_nodes(trace: Trace) -> dict[type[Event], Ids]:
    """A number for each node of each backward, the same in all tables of events."""
    tables = [trace.table(kind) for kind in OF_NODES]
    parts = [
        np.unique(np.concatenate([table[name] for table in tables]), return_inverse=True)[1]
        for name in ("task", "node")
    ]
    keys = parts[0].astype(np.int64) * (int(parts[1].max(initial=0)) + 1) + parts[1]
    bounds = np.cumsum([len(table) for table in tables])[:-1]
    return dict(zip(OF_NODES, np.split(keys, bounds), strict=True))
