"""What befell the gradients of each optimizer, in order: filled, cleared, clipped, stepped with."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any

import numpy as np

from gradscope.analysis.columns import Ids
from gradscope.analysis.identity.sites import Site, site_of
from gradscope.analysis.program.acts import Acts, Done, Optimizer, lines
from gradscope.analysis.program.training import Training
from gradscope.trace.schema import (
    NONE,
    Accumulate,
    Accumulation,
    Deed,
    GraphTask,
    Tensor,
    Version,
)
from gradscope.trace.trace import Trace


class Beat(StrEnum):
    """What can befall them."""

    FILLED = "filled"  # by a backward
    CLEARED = "cleared"
    WRITTEN = "written"  # or replaced, by something else than zeros
    CLIPPED = "clipped"
    UNSCALED = "unscaled"
    STEPPED = "stepped"
    SKIPPED = "skipped"  # a step that a scaler left out


@dataclass(frozen=True, slots=True)
class Moment:
    """One of them."""

    beat: Beat
    t: int
    stack: int
    table: str  # where its row is
    id: int
    tensors: int = 0  # so many of the optimizer's were filled, or cleared
    onto_old: int = 0  # so many of those that were filled had a gradient before
    first: int = 0  # when the first of them was filled
    facts: Mapping[str, Any] | None = None


CLEARING = (Deed.ZERO_GRAD, Deed.GRAD_SET, Deed.GRAD_ZEROED)
SCALING = ("mul_", "div_")
ADDED = (Accumulation.IN_PLACE, Accumulation.OUT_OF_PLACE)


class Loop:
    """The training of a trace, as its optimizers have seen it."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.acts = trace.once(Acts)
        self._moments: dict[int, list[Moment]] = {}  # by the act that made the optimizer

    @cached_property
    def optimizers(self) -> tuple[Optimizer, ...]:
        """Those that have stepped."""
        return tuple(each for each in self.acts.optimizers if each.steps or each.cleared)

    @cached_property
    def _outermost(self) -> dict[int, int]:
        """Each backward, and the one around all that it ran in."""
        tasks = self.trace.table(GraphTask)
        parents = dict(zip(tasks["id"].tolist(), tasks["parent"].tolist(), strict=True))
        found: dict[int, int] = {}
        for task in parents:
            outer = task
            while parents.get(outer, NONE) != NONE:
                outer = parents[outer]
            found[task] = outer
        return found

    @cached_property
    def tasks(self) -> dict[int, tuple[int, int]]:
        """Of each backward, when it began and where it was called."""
        tasks = self.trace.table(GraphTask)
        columns = (tasks[name].tolist() for name in ("id", "begin", "stack"))
        return {id: (begin, stack) for id, begin, stack in zip(*columns, strict=True)}

    @cached_property
    def _accumulated(self) -> tuple[Ids, Ids, Ids, Ids]:
        """Backward (the outermost), leaf, whether onto an older gradient, and when."""
        table = self.trace.table(Accumulate)
        inner, places = np.unique(table["task"], return_inverse=True)
        outer = np.array([self._outermost.get(each, each) for each in inner.tolist()], np.int64)
        task = outer[places] if len(outer) else table.array("task")
        added = np.isin(table["how"], ADDED).astype(np.int64)
        return np.asarray(task, np.int64), table.array("tensor"), added, table.array("t")

    def moments(self, optimizer: Optimizer) -> list[Moment]:
        """What befell the gradients of its tensors, by time."""
        known = self._moments.get(optimizer.built.id)
        if known is None:
            found = [*self._fills(optimizer), *self._acts_on(optimizer)]
            known = sorted(found, key=lambda moment: (moment.t, moment.id))
            self._moments[optimizer.built.id] = known
        return known

    @cached_property
    def by_hand(self) -> list[Moment]:
        """The same of leaves that the program writes itself, where it has no optimizer.

        What is written between two backwards is a step, at its first line.
        """
        if self.acts.optimizers:
            return []
        training = self.trace.once(Training)
        leaves = tuple(sorted(training.reached))
        nobody = Done(NONE, Deed.OPTIMIZER, 0, NONE, leaves, NONE, NONE, {}, NONE, NONE, NONE, NONE)
        update = Optimizer(nobody, "update", leaves, (), ())
        fills = list(self._fills(update))
        found = [*fills, *self._acts_on(update), *self._writes(leaves, [f.t for f in fills])]
        return sorted(found, key=lambda moment: (moment.t, moment.id))

    def _writes(self, leaves: tuple[int, ...], fills: list[int]) -> Iterator[Moment]:
        versions, tensors = self.trace.table(Version), self.trace.table(Tensor)
        known = [each for each in leaves if tensors.has(each)]
        storages = {tensors.row(each).storage: each for each in known}
        of_storage = np.isin(versions["storage"], [each for each in storages if each != NONE])
        its = np.flatnonzero(of_storage | np.isin(versions["tensor"], leaves))
        its = its[np.argsort(versions["t"][its], kind="stable")]
        rounds = np.searchsorted(np.sort(np.array(fills, np.int64)), versions["t"][its])
        _, first = np.unique(rounds, return_index=True)
        for place in its[first[rounds[first] > 0]].tolist():
            row = versions.at(place)
            leaf = storages.get(row.storage, row.tensor)
            yield Moment(Beat.STEPPED, row.t, row.stack, "tensor", leaf)

    def _fills(self, optimizer: Optimizer) -> Iterator[Moment]:
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
                yield Moment(
                    Beat.FILLED, begin, stack, "graph_task", task, many[place], old[place],
                    int(first[place]),
                )  # fmt: skip

    def _acts_on(self, optimizer: Optimizer) -> Iterator[Moment]:
        its = frozenset(optimizer.tensors)
        for act in self._acts:
            beat = self._beat(act, optimizer, its)
            if beat is not None:
                whole = act.kind is Deed.ZERO_GRAD and act.of != NONE
                many = len(its) if whole else len(its.intersection(act.tensors))
                yield Moment(beat, act.t, act.stack, "act", act.id, many, facts=act.facts)

    @cached_property
    def _acts(self) -> list[Done]:
        return self.acts.of(
            *CLEARING, Deed.STEP, Deed.SCALED_STEP, Deed.CLIP, Deed.UNSCALE
        )  # fmt: skip

    def _beat(self, act: Done, optimizer: Optimizer, its: frozenset[int]) -> Beat | None:
        if act.kind is Deed.CLIP:
            alone = not act.tensors and len(self.optimizers) == 1
            return Beat.CLIPPED if alone or not its.isdisjoint(act.tensors) else None
        if act.kind in CLEARING:
            if act.of != optimizer.built.id and its.isdisjoint(act.tensors):
                return None
            other = act.facts.get("to") == "tensor" or act.facts.get("by") in SCALING
            return Beat.WRITTEN if other else Beat.CLEARED
        if act.of != optimizer.built.id:
            return None
        if act.kind is Deed.SCALED_STEP:
            return Beat.SKIPPED if act.facts.get("skipped") else None
        return Beat.STEPPED if act.kind is Deed.STEP else Beat.UNSCALED

    def site(self, moment: Moment) -> Site:
        """The line on which it was done."""
        return site_of(self.trace, moment.stack)

    def sites(self, moment: Moment) -> tuple[Site, ...]:
        """That, and the lines around it."""
        return tuple(lines(self.trace, moment.stack))

    def rounds(self, optimizer: Optimizer) -> list[list[Moment]]:
        """What befell them, cut after each step; the last round has no step at its end."""
        found: list[list[Moment]] = [[]]
        for moment in self.moments(optimizer):
            found[-1].append(moment)
            if moment.beat in (Beat.STEPPED, Beat.SKIPPED):
                found.append([])
        return found


def by_line(moments: list[Moment]) -> dict[int, list[Moment]]:
    """Moments of one line together; lines by the first moment."""
    found: dict[int, list[Moment]] = defaultdict(list)
    for moment in moments:
        found[moment.stack].append(moment)
    return found


def left_over(moments: list[Moment]) -> list[Moment]:
    """The backwards of a round whose gradients were there when it stepped."""
    found: list[Moment] = []
    for moment in moments:
        if moment.beat is Beat.CLEARED:
            found.clear()
        elif moment.beat is Beat.FILLED:
            found.append(moment)
    return found
