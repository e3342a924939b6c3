"""The state of one node after a moment: its stage, its senders and its receivers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from gradscope.analysis.state.moments import Moments
from gradscope.trace.schema import (
    NONE,
    Decrement,
    Dependency,
    Edge,
    GraphTask,
    HookBegin,
    NodeBegin,
    NodeEnd,
    Pop,
    Push,
    Skipped,
)

if TYPE_CHECKING:
    from gradscope.analysis.lookups import Ids
    from gradscope.trace.schema.declare import Row
    from gradscope.trace.trace import Trace

MOST = 200
"""Largest number of senders and receivers of a node that are listed."""


class Stage(StrEnum):
    """The stages of a node in a backward."""

    OUTSIDE = "outside"  # this backward does not reach it, or has not reported so yet
    WAITING = "waiting"
    READY = "ready"
    TAKEN = "taken"  # out of its queue, not started
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    SKIPPED = "skipped"  # not needed for `inputs=`


STAGES: dict[type[Row], Stage] = {
    Dependency: Stage.WAITING,
    Push: Stage.READY,
    Pop: Stage.TAKEN,
    NodeBegin: Stage.RUNNING,
    NodeEnd: Stage.DONE,
    Skipped: Stage.SKIPPED,
}
"""The stage after each event."""


@dataclass(frozen=True, slots=True)
class Sender:
    """An edge along which a gradient arrives at the node."""

    node: int
    index: int  # which output of the sender
    input_nr: int  # which input of the node
    sent: int  # the moment; NONE: not yet
    stage: Stage


@dataclass(frozen=True, slots=True)
class Receiver:
    """An edge along which an output of the node goes on."""

    index: int
    node: int  # NONE: not needed
    input_nr: int
    stage: Stage


@dataclass(frozen=True, slots=True)
class Hooked:
    """One call of a hook on the node, from the whole trace."""

    name: str
    moment: int
    called: bool  # by now


@dataclass(frozen=True, slots=True)
class NodeAt:
    """The state of one node in one backward, right after a moment."""

    node: int
    task: int  # NONE: no backward is running
    stage: Stage
    since: int  # the moment of this stage; NONE outside backwards
    count: int  # number of gradients it waits for in total; NONE: not recorded
    came: int
    senders: tuple[Sender, ...]  # those of this backward, in the order of the trace
    sender_count: int  # total number
    receivers: tuple[Receiver, ...]
    receiver_count: int
    hooks: tuple[Hooked, ...]  # in this backward, called or not yet

    @property
    def missing(self) -> tuple[Sender, ...]:
        """The senders that have not sent yet."""
        return tuple(each for each in self.senders if each.sent == NONE)


class _By:
    """An index of the rows of a table by one column, in table order."""

    def __init__(self, keys: Ids) -> None:
        self._order = np.argsort(keys, kind="stable")
        self._keys = keys[self._order]

    def of(self, key: int) -> Ids:
        first, last = (np.searchsorted(self._keys, key, side=side) for side in ("left", "right"))
        return self._order[first:last]


class GradientTraffic:
    """Looks up the events of nodes; created once for a trace."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._moments = trace.once(Moments)
        self._by: dict[tuple[type[Row], str], _By] = {}
        self._wanted: tuple[int, frozenset[int]] = (NONE, frozenset())
        self._of_task: tuple[int, Ids] = (NONE, np.zeros(0, np.int64))

    def warm(self) -> None:
        """Build the indexes in advance."""
        for kind in (*STAGES, Decrement):
            self._rows(kind, "node", NONE)
        for kind in (Dependency, Push, NodeBegin):
            self._rows(kind, "task", NONE)

    def at(self, node: int, task: int, moment: int) -> NodeAt:
        """The state of a node right after a moment, in this backward, or in none for NONE."""
        stage, since = self.stage(node, task, moment)
        counted = self._told(Dependency, node, task, self._last)
        counts = self._column(Dependency, "count")[counted]
        came = self._told(Decrement, node, task, moment)
        senders, sender_count = self._senders(node, task, moment, came)
        receivers, receiver_count = self._receivers(node, task, moment)
        return NodeAt(
            node, task, stage, since, int(counts[-1]) if len(counts) else NONE, len(came),
            senders, sender_count, receivers, receiver_count, self._hooks(node, task, moment),
        )  # fmt: skip

    def _hooks(self, node: int, task: int, moment: int) -> tuple[Hooked, ...]:
        rows = self._told(HookBegin, node, task, self._last)[:MOST]
        moments = self._moments.of(HookBegin)[rows].tolist()
        names = self._column(HookBegin, "name")[rows].tolist()
        return tuple(
            Hooked(self._trace.text(name), when, when <= moment)
            for name, when in zip(names, moments, strict=True)
        )

    @cached_property
    def _last(self) -> int:
        return len(self._moments)

    def stage(self, node: int, task: int, moment: int) -> tuple[Stage, int]:
        """The stage of a node in a backward, and the moment it began."""
        found, since = Stage.OUTSIDE, NONE
        if NONE in (task, node):
            return found, since
        for kind, stage in STAGES.items():
            rows = self._told(kind, node, task, moment)
            if not len(rows):
                continue
            when = int(self._moments.of(kind)[rows[-1]])
            if when > since:
                failed = kind is NodeEnd and bool(self._column(kind, "failed")[rows[-1]])
                found, since = (Stage.FAILED if failed else stage), when
        if found is Stage.WAITING and not self._is_needed(node, task):
            found = Stage.SKIPPED
        return found, since

    def _is_needed(self, node: int, task: int) -> bool:
        """Whether the backward runs this node; with `inputs=` not all are needed."""
        tasks = self._trace.table(GraphTask)
        if not tasks.has(task):
            return True
        if self._wanted[0] != task:
            row = tasks.row(task)
            self._wanted = task, frozenset((*row.needed, *row.captured))
        return not self._wanted[1] or node in self._wanted[1]

    def _senders(
        self, node: int, task: int, moment: int, came: Ids
    ) -> tuple[tuple[Sender, ...], int]:
        rows = self._rows(Edge, "next", node)
        if task != NONE:
            rows = rows[self._is_in(self._column(Edge, "node")[rows], task)]
        pairs = zip(
            self._column(Decrement, "source")[came].tolist(),
            self._column(Decrement, "index")[came].tolist(),
            strict=True,
        )
        sent = dict(zip(pairs, self._moments.of(Decrement)[came].tolist(), strict=True))
        columns = [self._column(Edge, name)[rows[:MOST]].tolist()
                   for name in ("node", "index", "input_nr")]  # fmt: skip
        found = tuple(
            Sender(
                source, index, input_nr, sent.get((source, index), NONE),
                self.stage(source, task, moment)[0],
            )
            for source, index, input_nr in zip(*columns, strict=True)
        )  # fmt: skip
        return found, len(rows)

    def _receivers(self, node: int, task: int, moment: int) -> tuple[tuple[Receiver, ...], int]:
        rows = self._rows(Edge, "node", node)
        columns = [self._column(Edge, name)[rows[:MOST]].tolist()
                   for name in ("index", "next", "input_nr")]  # fmt: skip
        found = tuple(
            Receiver(index, to, input_nr, self.stage(to, task, moment)[0])
            for index, to, input_nr in zip(*columns, strict=True)
        )
        return found, len(rows)

    def _is_in(self, nodes: Ids, task: int) -> Ids:
        """Which of these nodes the backward reaches."""
        if self._of_task[0] != task:
            told = [
                self._column(kind, "node")[self._rows(kind, "task", task)]
                for kind in (Dependency, Push, NodeBegin)
            ]
            self._of_task = task, np.unique(np.concatenate(told))
        known = self._of_task[1]
        if not len(known):
            return np.zeros(len(nodes), bool)
        place = np.minimum(np.searchsorted(known, nodes), len(known) - 1)
        found: Ids = known[place] == nodes
        return found

    def _told(self, kind: type[Row], node: int, task: int, moment: int) -> Ids:
        """The rows of an event about this node in this backward up to a moment."""
        rows = self._rows(kind, "node", node)
        rows = rows[self._column(kind, "task")[rows] == task]
        found: Ids = rows[self._moments.of(kind)[rows] <= moment]
        return found

    def _rows(self, kind: type[Row], column: str, value: int) -> Ids:
        by = self._by.get((kind, column))
        if by is None:
            by = self._by[kind, column] = _By(self._column(kind, column))
        return by.of(value)

    def _column(self, kind: type[Row], name: str) -> Ids:
        return np.asarray(self._trace.table(kind)[name])


def node_at(trace: Trace, node: int, task: int, moment: int) -> NodeAt:
    """The state of a node right after a moment, in the backward with this task."""
    return trace.once(GradientTraffic).at(node, task, moment)
