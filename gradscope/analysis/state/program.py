"""Ranges of the program: running calls, existing gradients, saved values."""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from gradscope.analysis.graph.memory import held
from gradscope.analysis.program.acts import Acts
from gradscope.analysis.state.stretches import Stretches, first_after
from gradscope.trace.schema import (
    Accumulate,
    Act,
    ActFacts,
    GradSetAct,
    Module,
    Op,
    Span,
    Step,
    ZeroGradAct,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gradscope.analysis.lookups import Ids
    from gradscope.analysis.program.acts import Done
    from gradscope.analysis.state.moments import Moments
    from gradscope.trace.schema.declare import Row
    from gradscope.trace.trace import Trace

LETS_GO = (GradSetAct, ZeroGradAct)
"""Events of the program that replace or remove the `.grad` of a leaf."""


class ProgramStretches:
    """Ranges of the program; the rows of each are positions in the table named first."""

    def __init__(self, trace: Trace, moments: Moments) -> None:
        self._trace = trace
        self._moments = moments

    @cached_property
    def calls(self) -> Stretches:
        """Op: running forward calls."""
        return self._from_to(Op, self._moments.of(Op), "end")

    @cached_property
    def spans(self) -> Stretches:
        return self._from_to(Span, self._moments.since(self._trace.table(Span)["begin"]), "end")

    @cached_property
    def steps(self) -> Stretches:
        return self._from_to(Step, self._moments.of(Step), "end")

    @cached_property
    def saved(self) -> Stretches:
        """Saved: values that nodes save, until they are released or freed with the node."""
        known = held(self._trace)
        since = self._moments.since(known.begin)
        return Stretches(since, np.maximum(self._moments.since(known.end), since))

    def _from_to(self, kind: type[Row], since: Ids, end: str) -> Stretches:
        return Stretches(
            since, np.maximum(self._moments.since(self._trace.table(kind)[end]), since)
        )

    @cached_property
    def gradients(self) -> Stretches:
        """Accumulate: the last arrival in each existing `.grad`."""
        table, since = self._trace.table(Accumulate), self._moments.of(Accumulate)
        leaf = np.asarray(table["tensor"], np.int64)
        gone, when = self._let_go
        last = np.full(len(leaf), len(self._moments), np.int64)
        until = np.minimum(
            first_after(leaf, since, leaf, since, last), first_after(leaf, since, gone, when, last)
        )
        return Stretches(since, until)

    @cached_property
    def _let_go(self) -> tuple[Ids, Ids]:
        """Leaves whose `.grad` was removed, and when."""
        acts = self._trace.once(Acts)
        ids = self._trace.table(Act)["id"].tolist()
        moments = dict(zip(ids, self._moments.of(Act).tolist(), strict=True))
        of = self._leaves_of_acts(acts)
        pairs = [
            (leaf, moments[act.id]) for act in acts.of(*LETS_GO) for leaf in self._leaves(act, of)
        ]
        found = np.array(pairs, np.int64).reshape(-1, 2)
        return found[:, 0], found[:, 1]

    def _leaves(self, act: Done[ActFacts], of: Mapping[int, Sequence[int]]) -> Sequence[int]:
        if isinstance(act.facts, ZeroGradAct):
            if not act.facts.set_to_none:
                return ()
            return act.tensors or of.get(act.of, ())
        cleared = isinstance(act.facts, GradSetAct) and act.facts.to == "None"
        return act.tensors if cleared else ()

    def _leaves_of_acts(self, acts: Acts) -> Mapping[int, Sequence[int]]:
        found: dict[int, list[int]] = defaultdict(list)
        for optimizer in acts.optimizers:
            found[optimizer.built.id] += optimizer.tensors
        return found

    def modules_above(self, module: int) -> list[Module]:
        """A module and the modules around it, outermost first."""
        return [*self._trace.table(Module).chain(module, "parent")][::-1]
