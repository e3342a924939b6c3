"""What the engine and the program held right after one moment of a trace."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from gradscope.analysis.columns import member
from gradscope.analysis.identity.backwards import backward_numbers
from gradscope.analysis.memory import held as kept_by_graphs
from gradscope.analysis.state.moments import Moments
from gradscope.analysis.state.passage import Passage
from gradscope.analysis.state.program import Program
from gradscope.trace.schema import (
    NONE,
    Accumulate,
    Accumulation,
    BufferAdded,
    BufferMade,
    Capture,
    Decrement,
    Dependency,
    GraphTask,
    HookBegin,
    Module,
    Node,
    NodeBegin,
    Op,
    Pop,
    Push,
    Saved,
    Span,
    Step,
    Wait,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gradscope.analysis.columns import Ids
    from gradscope.analysis.state.stretches import Stretches
    from gradscope.trace.schema.declare import Row
    from gradscope.trace.trace import Trace

R = TypeVar("R", bound="Row")

ALL_NODES_FIRST = 2**63
"""Stands for the sequence number of an AccumulateGrad, which goes before all others."""


class Held:
    """All stretches of a trace, made when they are first asked for."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.moments = trace.once(Moments)
        self.engine = Passage(trace, self.moments)
        self.program = Program(trace, self.moments)

    @cached_property
    def holders(self) -> Ids:
        """Whose bytes each saved value holds: one number for each storage."""
        return kept_by_graphs(self.trace).holder

    def begun_in(self, task: int) -> Ids:
        """When nodes began to run in a backward, one after the other."""
        order, tasks = self._begun_by_task
        first, last = (np.searchsorted(tasks, task, side=side) for side in ("left", "right"))
        return order[first:last]

    @cached_property
    def _begun_by_task(self) -> tuple[Ids, Ids]:
        tasks, begun = np.asarray(self.trace.table(NodeBegin)["task"]), self.moments.of(NodeBegin)
        order = np.lexsort((begun, tasks))
        return begun[order], tasks[order]

    @cached_property
    def numbers(self) -> dict[int, int]:
        """The number of each backward, by the id of its graph task."""
        return backward_numbers(self.trace)


@dataclass(frozen=True, slots=True)
class Queued:
    """A node in a ready queue."""

    node: int
    since: int  # the moment
    queue: int
    depth: int  # of nested backwards: the deeper goes first,
    sequence_nr: int  # then the node made last; -1: an AccumulateGrad, before all others


@dataclass(frozen=True, slots=True)
class Arrived:
    """A gradient that came for a node that has not begun."""

    source: int  # the node that sent it
    index: int  # which of its results
    since: int


@dataclass(frozen=True, slots=True)
class Waiting:
    """A node that has not got all gradients it was counted for."""

    node: int
    count: int
    came: int  # so many have


@dataclass(frozen=True, slots=True)
class Running:
    """A node that runs, or was taken from its queue and is about to."""

    node: int
    since: int
    thread: int
    begun: bool


@dataclass(frozen=True, slots=True)
class Buffer:
    """A gradient that is kept for one input of a node, till that begins."""

    node: int
    input_nr: int
    since: int
    undefined: bool  # None came
    added: int  # so many gradients were added to it since,
    in_place: int  # so many of them in place


@dataclass(frozen=True, slots=True)
class Gradient:
    """What is in the `.grad` of a leaf."""

    tensor: int
    since: int  # when the last gradient arrived in it
    how: Accumulation | None
    node: int
    task: int


@dataclass(frozen=True, slots=True)
class Kept:
    """What nodes keep for their backward, counted once for each storage."""

    values: int
    bytes: int


class State:
    """The state right after the moment of this number; what is asked for is worked out then."""

    def __init__(self, held: Held, moment: int) -> None:
        self._held = held
        self.trace = held.trace
        self.moment = moment
        self.happened: Row = held.moments.at(moment)
        self.t = int(held.moments.t[moment])

    def __len__(self) -> int:
        """How many moments the trace has."""
        return len(self._held.moments)

    def __repr__(self) -> str:
        return f"<State after moment {self.moment} of {len(self)}: {self.happened}>"

    @property
    def seq(self) -> int:
        """The last event of the engine by now; NONE before the first."""
        of_events = self._held.moments.of_events
        place = int(np.searchsorted(of_events, self.moment, side="right")) - 1
        return int(self.trace.order().seq[place]) if place >= 0 else NONE

    def _rows(self, kind: type[R], stretches: Stretches) -> list[R]:
        return self.trace.table(kind).take(stretches.at(self.moment))

    # -- the engine -----------------------------------------------------------------------------

    @cached_property
    def backwards(self) -> tuple[Backward, ...]:
        """Those under way, the outermost first."""
        tasks = self._rows(GraphTask, self._held.engine.tasks)
        return tuple(Backward(self._held, self.moment, task) for task in tasks)

    @property
    def backward(self) -> Backward | None:
        """The one that this moment belongs to, else the innermost."""
        task = getattr(self.happened, "task", NONE)
        of_it = [each for each in self.backwards if each.task.id == task]
        return next(iter(of_it or self.backwards[-1:]), None)

    @cached_property
    def hooks(self) -> tuple[HookBegin, ...]:
        """Hooks that are called now, the outermost first."""
        return tuple(self._rows(HookBegin, self._held.engine.hooks))

    @cached_property
    def asleep(self) -> tuple[Wait, ...]:
        """Threads that wait for work."""
        return tuple(self._rows(Wait, self._held.engine.asleep))

    # -- the program ----------------------------------------------------------------------------

    @cached_property
    def calls(self) -> tuple[Op, ...]:
        """Operations under way, the outermost first."""
        return tuple(self._rows(Op, self._held.program.calls))

    @cached_property
    def spans(self) -> tuple[Span, ...]:
        """Spans under way, the outermost first."""
        return tuple(self._rows(Span, self._held.program.spans))

    @property
    def step(self) -> Step | None:
        """The step under way."""
        rows = self._rows(Step, self._held.program.steps)
        return rows[-1] if rows else None

    @cached_property
    def modules(self) -> tuple[Module, ...]:
        """The modules inside which it happened, the outermost first; of a node, which made it."""
        module = getattr(self.happened, "module", NONE)
        node, nodes = getattr(self.happened, "node", NONE), self.trace.table(Node)
        if module == NONE and nodes.has(node):
            module = int(nodes["module"][nodes.index(node)])
        return tuple(self._held.program.modules_above(module))

    @cached_property
    def gradients(self) -> tuple[Gradient, ...]:
        """What is in `.grad`, of each leaf that has one, by the order of arrival.

        Of what was there before the recording began the trace does not know.
        """
        stretches = self._held.program.gradients
        places = stretches.at(self.moment)
        rows = self.trace.table(Accumulate).take(places)
        moments = self._held.moments.of(Accumulate)[places].tolist()
        return tuple(
            Gradient(row.tensor, since, member(Accumulation, row.how), row.node, row.task)
            for row, since in zip(rows, moments, strict=True)
        )

    @cached_property
    def saved(self) -> Kept:
        """How much nodes keep for their backward."""
        places = self._held.program.saved.at(self.moment)
        _, first = np.unique(self._held.holders[places], return_index=True)
        size = int(np.asarray(self.trace.table(Saved)["bytes"])[places[first]].sum())
        return Kept(len(places), size)

    def saved_by(self, node: int) -> tuple[Saved, ...]:
        """What a node keeps now."""
        table, places = self.trace.table(Saved), self._held.program.saved.at(self.moment)
        return tuple(table.take(places[np.asarray(table["node"])[places] == node]))


class Backward:
    """One backward, right after a moment."""

    def __init__(self, held: Held, moment: int, task: GraphTask) -> None:
        self._held = held
        self._moment = moment
        self.task = task
        self.number = held.numbers[task.id]

    def _of(self, kind: type[Row], stretches: Stretches, *names: str) -> list[tuple[Any, ...]]:
        """The moment and these columns of all rows of this backward that hold."""
        places = self._places(kind, stretches)
        since = self._held.moments.of(kind)[places]
        columns = [self._column(kind, name)[places].tolist() for name in names]
        return list(zip(since.tolist(), *columns, strict=True))

    def _places(self, kind: type[Row], stretches: Stretches) -> Ids:
        """Which rows of this backward hold."""
        places = stretches.at(self._moment)
        mine: Ids = places[self._column(kind, "task")[places] == self.task.id]
        return mine

    @cached_property
    def running(self) -> tuple[Running, ...]:
        """Nodes that run, the outermost first, or that a thread has taken and not begun."""
        engine, names = self._held.engine, ("node", "thread")
        begun = [
            Running(node, since, thread, begun=True)
            for since, node, thread in self._of(NodeBegin, engine.running, *names)
        ]
        taken = [
            Running(node, since, thread, begun=False)
            for since, node, thread in self._of(Pop, engine.taken, *names)
        ]
        return (*begun, *taken)

    @cached_property
    def queued(self) -> tuple[Queued, ...]:
        """Nodes in ready queues, in the order in which they will be taken from each."""
        rows = self._of(Push, self._held.engine.queued, "node", "queue", "depth")
        nodes = self._held.trace.table(Node)
        found = []
        for since, node, queue, depth in rows:
            number = int(nodes["sequence_nr"][nodes.index(node)]) if nodes.has(node) else 0
            found.append(Queued(node, since, queue, depth, number))
        return tuple(sorted(found, key=_order))

    def arrived(self, node: int) -> tuple[Arrived, ...]:
        """Gradients that came for a node that has not begun, the first first."""
        places = self._arrived[self._column(Decrement, "node")[self._arrived] == node]
        since = self._held.moments.of(Decrement)[places].tolist()
        columns = [self._column(Decrement, name)[places].tolist() for name in ("source", "index")]
        return tuple(Arrived(*row) for row in zip(*columns, since, strict=True))

    @cached_property
    def _arrived(self) -> Ids:
        return self._places(Decrement, self._held.engine.arrived)

    @cached_property
    def _came(self) -> dict[int, int]:
        """How many gradients came for each node that has not begun."""
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
        """How many nodes are not ready yet, of those that are needed."""
        return len(self._waiting)

    @cached_property
    def waiting(self) -> tuple[Waiting, ...]:
        """Nodes that are not ready yet and for which something has come."""
        come = np.isin(self._column(Dependency, "node")[self._waiting], [*self._came])
        return tuple(self._each_waiting(self._waiting[come]))

    def all_waiting(self) -> Iterator[Waiting]:
        """All nodes that are not ready yet, as the engine counted them.

        Where only some gradients were asked for, without nodes that are not needed: nobody tells
        what comes for those.
        """
        return self._each_waiting(self._waiting)

    def _each_waiting(self, places: Ids) -> Iterator[Waiting]:
        for place in places.tolist():
            node, count = (int(self._column(Dependency, name)[place]) for name in ("node", "count"))
            yield Waiting(node, count, self._came.get(node, 0))

    def _column(self, kind: type[Row], name: str) -> Ids:
        return np.asarray(self._held.trace.table(kind)[name])

    @cached_property
    def buffers(self) -> tuple[Buffer, ...]:
        """Gradients that are kept for nodes that have not begun."""
        engine, names = self._held.engine, ("node", "input_nr")
        rows = self._of(BufferAdded, engine.added, *names, "in_place")
        added = Counter((node, nr) for _, node, nr, _ in rows)
        in_place = Counter((node, nr) for _, node, nr, is_so in rows if is_so)
        return tuple(
            Buffer(node, nr, since, bool(undefined), added[node, nr], in_place[node, nr])
            for since, node, nr, undefined in self._of(BufferMade, engine.kept, *names, "undefined")
        )

    @cached_property
    def captured(self) -> tuple[tuple[int, int], ...]:
        """Nodes whose gradient was captured for `inputs=`, and which of their inputs."""
        rows = self._of(Capture, self._held.engine.captured, "node", "input_nr")
        return tuple((node, nr) for _, node, nr in rows)

    @cached_property
    def progress(self) -> tuple[int, int]:
        """How many nodes have begun, and how many do in all, as far as the trace goes."""
        begun = self._held.begun_in(self.task.id)
        return int(np.searchsorted(begun, self._moment, side="right")), len(begun)


def _order(queued: Queued) -> tuple[int, int, int, int]:
    number = ALL_NODES_FIRST if queued.sequence_nr < 0 else queued.sequence_nr
    return queued.queue, -queued.depth, -number, queued.since


def at(trace: Trace, moment: int) -> State:
    """The state right after a moment; the last one for -1."""
    held = trace.once(Held)
    return State(held, len(held.moments) - 1 if moment == -1 else moment)
