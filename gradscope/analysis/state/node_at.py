"""One node right after a moment: where it is on its way, who sends to it, where its results go."""

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
"""So many senders and receivers of a node are named; of how many, is said."""


class Stage(StrEnum):
    """Where a node is on its way through a backward."""

    OUTSIDE = "outside"  # this backward does not come to it, or has not told so yet
    WAITING = "waiting"
    READY = "ready"
    TAKEN = "taken"  # out of its queue, and not begun
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    SKIPPED = "skipped"  # not needed for `inputs=`, whether or not its turn has come


STAGES: dict[type[Row], Stage] = {
    Dependency: Stage.WAITING,
    Push: Stage.READY,
    Pop: Stage.TAKEN,
    NodeBegin: Stage.RUNNING,
    NodeEnd: Stage.DONE,
    Skipped: Stage.SKIPPED,
}
"""What each event makes of a node."""


@dataclass(frozen=True, slots=True)
class Sender:
    """An edge by which a gradient comes to the node."""

    node: int
    index: int  # which of the sender's results
    input_nr: int  # which of the node's inputs
    sent: int  # the moment; NONE: not yet
    stage: Stage


@dataclass(frozen=True, slots=True)
class Receiver:
    """An edge by which one of the node's results goes on."""

    index: int
    node: int  # NONE: nobody wants it
    input_nr: int
    stage: Stage


@dataclass(frozen=True, slots=True)
class Hooked:
    """One call of a hook on the node, as the whole trace tells."""

    name: str
    moment: int
    called: bool  # by now; else it is to come


@dataclass(frozen=True, slots=True)
class NodeAt:
    """One node in one backward, right after a moment."""

    node: int
    task: int  # NONE: no backward is under way
    stage: Stage
    since: int  # the moment it came to this stage; NONE outside of all
    count: int  # for so many gradients it waits in all; NONE if nobody counted them
    came: int
    senders: tuple[Sender, ...]  # those of this backward, in the order of the trace
    sender_count: int  # of how many these are the first
    receivers: tuple[Receiver, ...]
    receiver_count: int
    hooks: tuple[Hooked, ...]  # in this backward, called and to come

    @property
    def missing(self) -> tuple[Sender, ...]:
        """Those who have not sent yet."""
        return tuple(each for each in self.senders if each.sent == NONE)


class _By:
    """The rows of a table by one of its columns, and within it in the table's own order."""

    def __init__(self, keys: Ids) -> None:
        self._order = np.argsort(keys, kind="stable")
        self._keys = keys[self._order]

    def of(self, key: int) -> Ids:
        first, last = (np.searchsorted(self._keys, key, side=side) for side in ("left", "right"))
        return self._order[first:last]


class GradientTraffic:
    """Finds what was told of a node; made once for a trace."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._moments = trace.once(Moments)
        self._by: dict[tuple[type[Row], str], _By] = {}
        self._wanted: tuple[int, frozenset[int]] = (NONE, frozenset())
        self._of_task: tuple[int, Ids] = (NONE, np.zeros(0, np.int64))

    def warm(self) -> None:
        """Sort what will be looked up."""
        for kind in (*STAGES, Decrement):
            self._rows(kind, "node", NONE)
        for kind in (Dependency, Push, NodeBegin):
            self._rows(kind, "task", NONE)

    def at(self, node: int, task: int, moment: int) -> NodeAt:
        """A node right after a moment, in this backward; NONE: in none."""
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
        """Where a node is in a backward, and since which moment."""
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
        """Whether the backward runs this node: not all, where only some gradients are asked for."""
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
        """Which of these nodes the backward comes to."""
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
        """The rows of an event about this node in this backward, no later than a moment."""
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
    """One node right after a moment, in the backward with this task."""
    return trace.once(GradientTraffic).at(node, task, moment)
