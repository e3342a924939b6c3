"""The state of the engine and the program right after one moment of a trace."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from gradscope.analysis.graph.memory import held as kept_by_graphs
from gradscope.analysis.identity.backwards import backward_numbers
from gradscope.analysis.lookups import member
from gradscope.analysis.state.backward import BackwardState
from gradscope.analysis.state.moments import Moments
from gradscope.analysis.state.passage import Passage
from gradscope.analysis.state.program import ProgramStretches
from gradscope.trace.schema import (
    NONE,
    Accumulate,
    Accumulation,
    GraphTask,
    HookBegin,
    Module,
    Node,
    NodeBegin,
    Op,
    Saved,
    Span,
    Step,
    Wait,
)

if TYPE_CHECKING:
    from gradscope.analysis.lookups import Ids
    from gradscope.analysis.state.stretches import Stretches
    from gradscope.trace.schema.declare import Row
    from gradscope.trace.trace import Trace

R = TypeVar("R", bound="Row")


class TraceStretches:
    """All ranges of a trace, computed on first use."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.moments = trace.once(Moments)
        self.engine = Passage(trace, self.moments)
        self.program = ProgramStretches(trace, self.moments)

    @cached_property
    def holders(self) -> Ids:
        """A number for the storage of each saved value."""
        return kept_by_graphs(self.trace).holder

    def begun_in(self, task: int) -> Ids:
        """The moments at which nodes of a backward started, in order."""
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
class GradientNow:
    """The contents of the `.grad` of a leaf."""

    tensor: int
    since: int  # when the last gradient arrived in it
    how: Accumulation | None
    node: int
    task: int


@dataclass(frozen=True, slots=True)
class SavedNow:
    """The saved values of nodes, each storage counted once."""

    values: int
    bytes: int


class State:
    """The state right after a moment; computed on demand."""

    def __init__(self, held: TraceStretches, moment: int) -> None:
        self._held = held
        self.trace = held.trace
        self.moment = moment
        self.happened: Row = held.moments.at(moment)
        self.t = int(held.moments.t[moment])

    def __len__(self) -> int:
        """The number of moments of the trace."""
        return len(self._held.moments)

    def __repr__(self) -> str:
        return f"<State after moment {self.moment} of {len(self)}: {self.happened}>"

    @property
    def seq(self) -> int:
        """The latest event of the engine; NONE before the first."""
        of_events = self._held.moments.of_events
        place = int(np.searchsorted(of_events, self.moment, side="right")) - 1
        return int(self.trace.order().seq[place]) if place >= 0 else NONE

    def _rows(self, kind: type[R], stretches: Stretches) -> list[R]:
        return self.trace.table(kind).take(stretches.at(self.moment))

    # -- the engine -----------------------------------------------------------------------------

    @cached_property
    def backwards(self) -> tuple[BackwardState, ...]:
        """The running backwards, outermost first."""
        tasks = self._rows(GraphTask, self._held.engine.tasks)
        return tuple(BackwardState(self._held, self.moment, task) for task in tasks)

    @property
    def backward(self) -> BackwardState | None:
        """The backward of this moment, or else the innermost running one."""
        task = getattr(self.happened, "task", NONE)
        of_it = [each for each in self.backwards if each.task.id == task]
        return next(iter(of_it or self.backwards[-1:]), None)

    @cached_property
    def hooks(self) -> tuple[HookBegin, ...]:
        """Running hooks, outermost first."""
        return tuple(self._rows(HookBegin, self._held.engine.hooks))

    @cached_property
    def asleep(self) -> tuple[Wait, ...]:
        return tuple(self._rows(Wait, self._held.engine.asleep))

    # -- the program ----------------------------------------------------------------------------

    @cached_property
    def calls(self) -> tuple[Op, ...]:
        """Running operations, outermost first."""
        return tuple(self._rows(Op, self._held.program.calls))

    @cached_property
    def spans(self) -> tuple[Span, ...]:
        """Open spans, outermost first."""
        return tuple(self._rows(Span, self._held.program.spans))

    @property
    def step(self) -> Step | None:
        rows = self._rows(Step, self._held.program.steps)
        return rows[-1] if rows else None

    @cached_property
    def modules(self) -> tuple[Module, ...]:
        """The modules of this moment, outermost first; for a node, those that created it."""
        module = getattr(self.happened, "module", NONE)
        node, nodes = getattr(self.happened, "node", NONE), self.trace.table(Node)
        if module == NONE and nodes.has(node):
            module = int(nodes["module"][nodes.index(node)])
        return tuple(self._held.program.modules_above(module))

    @cached_property
    def gradients(self) -> tuple[GradientNow, ...]:
        """The leaves with a `.grad`, in the order of arrival.

        Gradients from before the recording are not known.
        """
        stretches = self._held.program.gradients
        places = stretches.at(self.moment)
        rows = self.trace.table(Accumulate).take(places)
        moments = self._held.moments.of(Accumulate)[places].tolist()
        return tuple(
            GradientNow(row.tensor, since, member(Accumulation, row.how), row.node, row.task)
            for row, since in zip(rows, moments, strict=True)
        )

    @cached_property
    def saved(self) -> SavedNow:
        """The saved values of all nodes."""
        places = self._held.program.saved.at(self.moment)
        _, first = np.unique(self._held.holders[places], return_index=True)
        size = int(np.asarray(self.trace.table(Saved)["bytes"])[places[first]].sum())
        return SavedNow(len(places), size)

    def saved_by(self, node: int) -> tuple[Saved, ...]:
        table, places = self.trace.table(Saved), self._held.program.saved.at(self.moment)
        return tuple(table.take(places[np.asarray(table["node"])[places] == node]))


def at(trace: Trace, moment: int) -> State:
    """The state right after a moment; the last one for -1."""
    held = trace.once(TraceStretches)
    return State(held, len(held.moments) - 1 if moment == -1 else moment)
