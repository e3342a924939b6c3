"""What each rank did in each step, in numbers: a row for each rank, a column for each step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from gradscope.analysis.identity.steps import steps
from gradscope.analysis.lookups import Ids
from gradscope.analysis.ranks.waits import rank_waits
from gradscope.analysis.ranks.whose import RankOf
from gradscope.analysis.timing.by_step import step_facts
from gradscope.trace.schema import (
    NONE,
    Act,
    GraphTask,
    Node,
    Phase,
    Replicated,
    Span,
    Step,
    StepAct,
    Value,
)
from gradscope.trace.trace import Trace

Floats: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class RankSteps:
    """Numbers of the steps of all ranks. Arrays have the shape (ranks, steps)."""

    ranks: tuple[int, ...]
    steps: tuple[int, ...]  # their numbers
    ns: Ids  # without waits for other ranks; NONE: there is no such step, or it did not end
    norm: Floats  # of all gradients, when the optimizer stepped; NaN: not measured
    non_finite: Ids  # number of recorded tensors with NaN or Inf; NONE: none was recorded
    alike: Ids  # number of the group of ranks that did the same, 0 the largest; NONE: no such step


def rank_steps(trace: Trace) -> RankSteps | None:
    """The numbers of a merged trace; None for the trace of one process, or without steps."""
    ranks = trace.once(RankOf)
    rows = steps(trace) if ranks.numbers else ()
    if not rows:
        return None
    numbers = sorted({row.number for row in rows})
    cells = _Cells(trace, ranks, numbers)
    norm, non_finite = cells.norm(), cells.non_finite()
    return RankSteps(
        ranks.numbers,
        tuple(numbers),
        _times(trace, ranks.numbers, numbers),
        norm,
        non_finite,
        cells.alike(norm, non_finite),
    )


def _times(trace: Trace, ranks: tuple[int, ...], numbers: list[int]) -> Ids:
    place = {rank: at for at, rank in enumerate(ranks)}
    column = {number: at for at, number in enumerate(numbers)}
    found = np.full((len(ranks), len(numbers)), NONE, np.int64)
    for step in step_facts(trace):
        if step.rank in place:
            found[place[step.rank], column[step.number]] = step.ns
    for wait in trace.once(rank_waits).waits:
        at = place[wait.rank], column.get(wait.step, NONE)
        if at[1] != NONE and found[at] != NONE:
            found[at] = max(found[at] - wait.ns, 0)
    return found


class _Cells:
    """Counts rows of tables by rank and step."""

    def __init__(self, trace: Trace, ranks: RankOf, numbers: list[int]) -> None:
        self._trace, self._shape = trace, (len(ranks.numbers), len(numbers))
        table = trace.table(Step)
        owners = ranks.of(Step.TABLE, table["id"])
        place = {rank: at for at, rank in enumerate(ranks.numbers)}
        row = np.array([place.get(rank, NONE) for rank in owners.tolist()], np.int64)
        column = np.searchsorted(numbers, table["number"])
        known = np.isin(table["number"], numbers) & (row != NONE)
        self._of = np.where(known, row * len(numbers) + column, NONE)
        self._there = self._sums(self._of, np.ones(len(table))) > 0

    def _at(self, ids: Ids) -> Ids:
        """The cell of each step; NONE for none."""
        places = self._trace.table(Step).positions(ids)
        return np.where(places == NONE, NONE, self._of[places]) if len(self._of) else places

    def _sums(self, cells: Ids, weights: Floats) -> Floats:
        inside = cells != NONE
        many = self._shape[0] * self._shape[1]
        found = np.bincount(cells[inside], weights[inside], many)
        return np.asarray(found, np.float64).reshape(self._shape)

    def _counts(self, ids: Ids) -> Floats:
        return self._sums(self._at(ids), np.ones(len(ids)))

    def norm(self) -> Floats:
        facts, acts = self._trace.table(StepAct), self._trace.table(Act)
        grad = facts.ragged("grad")
        places = acts.positions(facts["id"])
        step = np.where(places == NONE, NONE, acts["step"][places]) if len(acts) else places
        cells = self._at(step)[grad.owners]
        known = ~np.isnan(grad.values)
        squares = self._sums(cells[known], np.square(grad.values[known]))
        measured = self._sums(cells[known], np.ones(int(known.sum()))) > 0
        return np.where(measured, np.sqrt(squares), np.nan)

    def non_finite(self) -> Ids:
        values = self._trace.table(Value)
        bad = (values["nan"] + values["posinf"] + values["neginf"] > 0).astype(np.float64)
        found = self._sums(self._at(values["step"]), bad)
        return np.where(self._counts(values["step"]) > 0, found, NONE).astype(np.int64)

    def alike(self, norm: Floats, non_finite: Ids) -> Ids:
        """In each step: the same numbers of nodes, backwards and collectives.

        If replicas average their gradients, also the same norm.
        """
        tasks, spans = self._trace.table(GraphTask), self._trace.table(Span)
        did = [
            self._counts(self._trace.table(Node)["step"]),
            self._counts(tasks["step"][tasks["parent"] == NONE]),
            self._counts(spans["step"][spans["phase"] == Phase.COLLECTIVE]),
            np.where(np.isnan(norm) | (len(self._trace.table(Replicated)) == 0), NONE, norm),
            np.minimum(non_finite, 1),
        ]
        found = np.full(self._shape, NONE, np.int64)
        for step in range(self._shape[1]):
            there = np.flatnonzero(self._there[:, step])
            if not len(there):
                continue
            rows = np.stack([each[there, step] for each in did])
            _, first, group, many = np.unique(
                rows, axis=1, return_index=True, return_inverse=True, return_counts=True
            )
            place = np.empty(len(many), np.int64)
            place[np.lexsort((first, -many))] = np.arange(len(many))
            found[there, step] = place[np.ravel(group)]
        return found
