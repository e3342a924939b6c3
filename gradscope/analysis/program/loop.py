"""Events of each optimizer's gradients, in order: filled, cleared, clipped, stepped."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any

import numpy as np

from gradscope.analysis.identity.sites import Site, site_of
from gradscope.analysis.lookups import Ids, grouped
from gradscope.analysis.program.acts import Acts, Done, Optimizer, by_of, lines
from gradscope.analysis.program.training import Training
from gradscope.trace.schema import (
    NONE,
    Accumulate,
    Accumulation,
    ActFacts,
    ClipAct,
    DataSetAct,
    GradSetAct,
    GradZeroedAct,
    GraphTask,
    OptimizerAct,
    ScaledStepAct,
    StepAct,
    Tensor,
    UnscaleAct,
    Version,
    ZeroGradAct,
)
from gradscope.trace.trace import Trace


class Beat(StrEnum):
    """Kinds of events of an optimizer's gradients."""

    FILLED = "filled"  # by a backward
    CLEARED = "cleared"
    WRITTEN = "written"  # or replaced by something other than zeros
    CLIPPED = "clipped"
    UNSCALED = "unscaled"
    STEPPED = "stepped"
    SKIPPED = "skipped"  # a step that a scaler skipped


@dataclass(frozen=True, slots=True)
class LoopMoment:
    """One event of an optimizer's gradients."""

    beat: Beat
    t: int
    stack: int
    table: str  # the table and id of its row
    id: int
    tensors: int = 0  # number of the optimizer's tensors that were filled or cleared
    onto_old: int = 0  # number of filled ones that had a gradient before
    first: int = 0  # the time at which the first of them was filled
    facts: ActFacts | None = None

    @property
    def replaces(self) -> bool:
        """Whether a gradient was replaced by another one."""
        return self.beat is Beat.WRITTEN and getattr(self.facts, "to", "") == "tensor"


CLEARING = (ZeroGradAct, GradSetAct, GradZeroedAct)
SCALING = ("mul_", "div_")
BY_HAND = "the update"
"""Stands for an optimizer's type."""

ADDED = (Accumulation.IN_PLACE, Accumulation.OUT_OF_PLACE)


class Loop:
    """The training of a trace, from the point of view of its optimizers."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.acts = trace.once(Acts)
        self._moments: dict[int, list[LoopMoment]] = {}  # by the act that created the optimizer

    @cached_property
    def in_use(self) -> tuple[Optimizer, ...]:
        """Optimizers that have stepped, or whose gradients were cleared."""
        return tuple(each for each in self.acts.optimizers if each.steps or each.cleared)

    @cached_property
    def _outermost(self) -> dict[int, int]:
        """The outermost backward that contains each backward."""
        tasks = self.trace.table(GraphTask)
        nested = tasks["id"][tasks["parent"] != NONE].tolist()
        itself = {task: task for task in tasks["id"].tolist()}
        return itself | {task: [*tasks.chain(task, "parent")][-1].id for task in nested}

    @cached_property
    def tasks(self) -> dict[int, tuple[int, int]]:
        """Start and calling line of each backward."""
        tasks = self.trace.table(GraphTask)
        columns = (tasks[name].tolist() for name in ("id", "begin", "stack"))
        return {id: (begin, stack) for id, begin, stack in zip(*columns, strict=True)}

    @cached_property
    def _accumulated(self) -> tuple[Ids, Ids, Ids, Ids]:
        """Outermost backward, leaf, whether a gradient existed before, and time."""
        table = self.trace.table(Accumulate)
        inner, places = np.unique(table["task"], return_inverse=True)
        outer = np.array([self._outermost.get(each, each) for each in inner.tolist()], np.int64)
        task = outer[places] if len(outer) else table.array("task")
        added = np.isin(table["how"], ADDED).astype(np.int64)
        return np.asarray(task, np.int64), table.array("tensor"), added, table.array("t")

    def moments(self, optimizer: Optimizer) -> list[LoopMoment]:
        """Events of the gradients of its tensors, by time."""
        known = self._moments.get(optimizer.built.id)
        if known is None:
            found = [*self._fills(optimizer), *self._acts_on(optimizer)]
            if optimizer.type == BY_HAND:
                found += self._steps_by_hand(optimizer.tensors)
            known = sorted(found, key=lambda moment: (moment.t, moment.id))
            self._moments[optimizer.built.id] = known
        return known

    @cached_property
    def by_hand(self) -> tuple[Optimizer, ...]:
        """Leaves that the program updates itself without an optimizer, grouped as in optimizers.

        A write between two backwards, by a line that reads `.grad`, is a step; the first one
        counts. Leaves whose steps happen at the same times belong together.
        """
        if self.acts.optimizers:
            return ()
        fills = np.sort(np.array([begin for begin, _ in self.tasks.values()], np.int64))
        rounds: dict[int, set[int]] = defaultdict(set)
        for leaf, moment in self._writes:
            rounds[leaf].add(int(np.searchsorted(fills, moment.t)))
        together: dict[frozenset[int], list[int]] = defaultdict(list)
        for leaf, its in sorted(rounds.items()):
            if its - {0}:
                together[frozenset(its)].append(leaf)
        return tuple(
            Optimizer(_nobody(NONE - 1 - place, leaves), BY_HAND, tuple(leaves), (), ())
            for place, leaves in enumerate(together.values())
        )

    @cached_property
    def trained(self) -> tuple[Optimizer, ...]:
        """What is trained: optimizers in use or, without any, groups of `by_hand`."""
        return self.in_use or self.by_hand

    def _steps_by_hand(self, leaves: tuple[int, ...]) -> Iterator[LoopMoment]:
        """The first write between two backwards, by lines that write after some backward."""
        its = frozenset(leaves)
        writes = sorted((each for leaf, each in self._writes if leaf in its), key=lambda w: w.t)
        fills = sorted(begin for begin, _ in self.tasks.values())
        after = {each.stack for each in writes if fills and each.t > fills[0]}
        told: set[int] = set()
        for each in writes:
            place = bisect_right(fills, each.t)
            if each.stack in after and place not in told:
                told.add(place)
                yield each

    @cached_property
    def _writes(self) -> list[tuple[int, LoopMoment]]:
        """Writes to leaves that received gradients, and assignments of their data, by leaf."""
        leaves = self.trace.once(Training).reached
        versions, tensors = self.trace.table(Version), self.trace.table(Tensor)
        storages = {tensors.row(each).storage: each for each in leaves if tensors.has(each)}
        storages.pop(NONE, None)
        its = np.isin(versions["storage"], [*storages]) | np.isin(versions["tensor"], [*leaves])
        columns = (versions[name][its].tolist() for name in ("storage", "tensor", "t", "stack"))
        found = []
        for storage, tensor, t, stack in zip(*columns, strict=True):
            if not self._reads_gradients(stack):
                continue
            leaf = tensor if tensor in leaves else storages.get(storage, tensor)
            found.append((leaf, LoopMoment(Beat.STEPPED, t, stack, "tensor", leaf)))
        for act in self.acts.of(DataSetAct):
            replaced = LoopMoment(Beat.STEPPED, act.t, act.stack, "act", act.id)
            if self._reads_gradients(act.stack):
                found += [(leaf, replaced) for leaf in act.tensors]
        return found

    def _reads_gradients(self, stack: int) -> bool:
        """Whether a line reads gradients; other lines may write unrelated values."""
        return ".grad" in site_of(self.trace, stack).text

    def _fills(self, optimizer: Optimizer) -> Iterator[LoopMoment]:
        tasks, tensors, onto_old, t = self._accumulated
        its = np.isin(tensors, np.array(optimizer.tensors, np.int64))
        its_tasks, places = np.unique(tasks[its], return_inverse=True)
        many = np.bincount(places, minlength=len(its_tasks)).tolist()
        old = np.bincount(places, onto_old[its], len(its_tasks)).astype(np.int64).tolist()
        first = np.full(len(its_tasks), np.iinfo(np.int64).max)
        np.minimum.at(first, places, t[its])
        for place, task in enumerate(its_tasks.tolist()):
            if task in self.tasks:
                begin, stack = self.tasks[task]
                yield LoopMoment(
                    Beat.FILLED, begin, stack, "graph_task", task, many[place], old[place],
                    int(first[place]),
                )  # fmt: skip

    def _acts_on(self, optimizer: Optimizer) -> Iterator[LoopMoment]:
        its = frozenset(optimizer.tensors)
        for act in self._acts:
            beat = self._beat(act, optimizer, its)
            if beat is not None:
                many = len(its.intersection(self._cleared_by(act)))
                yield LoopMoment(beat, act.t, act.stack, "act", act.id, many, facts=act.facts)

    @cached_property
    def _acts(self) -> list[Done[Any]]:
        return self.acts.of(*CLEARING, StepAct, ScaledStepAct, ClipAct, UnscaleAct)

    def _beat(self, act: Done[ActFacts], optimizer: Optimizer, its: frozenset[int]) -> Beat | None:
        if isinstance(act.facts, ClipAct):
            alone = not act.tensors and len(self.trained) == 1
            return Beat.CLIPPED if alone or not its.isdisjoint(act.tensors) else None
        if isinstance(act.facts, CLEARING):
            if act.of != optimizer.built.id and its.isdisjoint(self._cleared_by(act)):
                return None
            other = isinstance(act.facts, GradSetAct) and act.facts.to == "tensor"
            other |= by_of(act.facts) in SCALING
            return Beat.WRITTEN if other else Beat.CLEARED
        if act.of != optimizer.built.id:
            return None
        if isinstance(act.facts, ScaledStepAct):
            return Beat.SKIPPED if act.facts.skipped else None
        return Beat.STEPPED if isinstance(act.facts, StepAct) else Beat.UNSCALED

    def _cleared_by(self, act: Done[ActFacts]) -> Iterable[int]:
        """The tensors that were cleared; for an optimizer's zero_grad, all that it holds.

        Another optimizer may hold the same: in SAM, an inner optimizer steps the parameters.
        """
        return (
            self._held.get(act.of, act.tensors)
            if isinstance(act.facts, ZeroGradAct)
            else act.tensors
        )

    @cached_property
    def _held(self) -> dict[int, tuple[int, ...]]:
        return {each.built.id: each.tensors for each in self.acts.optimizers}

    def site(self, moment: LoopMoment) -> Site:
        return site_of(self.trace, moment.stack)

    def sites(self, moment: LoopMoment) -> tuple[Site, ...]:
        """The line, and the lines around it."""
        return tuple(lines(self.trace, moment.stack))

    def rounds(self, optimizer: Optimizer) -> list[list[LoopMoment]]:
        """The same events, split after each step; the last iteration has no step at its end."""
        found: list[list[LoopMoment]] = [[]]
        for moment in self.moments(optimizer):
            found[-1].append(moment)
            if moment.beat in (Beat.STEPPED, Beat.SKIPPED):
                found.append([])
        return found


def by_line(moments: list[LoopMoment]) -> dict[int, list[LoopMoment]]:
    """Moments grouped by line, in the order of the first moments."""
    return grouped(moments, lambda moment: moment.stack)


def left_over(moments: list[LoopMoment]) -> list[LoopMoment]:
    """The backwards of an iteration whose gradients existed when it stepped."""
    found: list[LoopMoment] = []
    for moment in moments:
        if moment.beat is Beat.CLEARED:
            found.clear()
        elif moment.beat is Beat.FILLED:
            found.append(moment)
    return found


def _nobody(id: int, leaves: list[int]) -> Done[OptimizerAct]:
    """An act that stands for the creation of an optimizer."""
    none = OptimizerAct()
    return Done(id, none.KIND, 0, NONE, tuple(leaves), NONE, NONE, none, NONE, NONE, NONE, NONE)
