"""All steps of a run, also those that were left out: how many, and what was measured of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite, isnan

import numpy as np

from gradscope.analysis.identity.steps import steps
from gradscope.analysis.lookups import Ids
from gradscope.analysis.ranks.whose import RankOf
from gradscope.trace.arrays import distinct
from gradscope.trace.schema import NONE, GraphTask, Op, Step, StepSummary
from gradscope.trace.trace import Trace


@dataclass(frozen=True, slots=True)
class SummedUp:
    """What was measured of one step."""

    step: Step
    row: StepSummary

    @property
    def number(self) -> int:
        return self.step.number

    @property
    def has_loss(self) -> bool:
        """Whether its loss was read."""
        return self.row.roots > 0

    @property
    def is_bad(self) -> bool:
        """Whether its loss, or a gradient or parameter, was not finite."""
        row = self.row
        bad = row.gradient_nan + row.gradient_inf + row.weight_bad
        return bool(bad) or (self.has_loss and not isfinite(row.loss))

    @property
    def kind(self) -> str:
        """What it holds that is not finite: "NaN" or "Inf"."""
        row = self.row
        infinite = not isnan(row.loss) if self.has_loss and not isfinite(row.loss) else False
        return "Inf" if infinite or (row.gradient_inf and not row.gradient_nan) else "NaN"

    @property
    def what(self) -> str:
        """What is not finite, as in "the loss"."""
        row = self.row
        parts = [
            "the loss" * (self.has_loss and not isfinite(row.loss)),
            "gradients" * bool(row.gradient_nan + row.gradient_inf),
            "parameters" * bool(row.weight_bad),
        ]
        named = [part for part in parts if part]
        return " and ".join(filter(None, [", ".join(named[:-1]), *named[-1:]]))


class LongRun:
    """The steps of a run. In a merged trace, the summaries are those of its first rank."""

    def __init__(self, trace: Trace) -> None:
        ranks = trace.once(RankOf)
        self.rank: int = min(ranks.numbers) if ranks.numbers else NONE
        """The rank of the summaries; NONE in the trace of one process."""
        self.recorded = _recorded(trace)
        """The numbers of the steps with recorded calls or backwards."""
        left_out = sum(_counted(trace, why, "steps") for why in ("unwanted", "dropped", "let_go"))
        counted = len(self.recorded) + left_out - _counted(trace, "dropped", "in_part")
        self.steps: int = max(counted, _begun(trace, self.rank)) if left_out else counted
        """Number of steps that ran."""
        if trace.truncated:  # those that were left out are not counted yet
            self.steps = max(self.steps, _begun(trace, self.rank))
        facts = trace.meta.get("summary", {})
        self.stride: int = max(int(facts.get("stride", 1)), 1)
        """At most one step in this many was measured at the end."""
        self.measured: tuple[SummedUp, ...] = tuple(_summed_up(trace, ranks, self.rank))

    @property
    def has_left_out(self) -> bool:
        """Whether steps ran of which nothing but summaries is recorded."""
        return self.steps > len(self.recorded)

    @property
    def with_parameters(self) -> int:
        """Number of steps whose gradients and parameters were measured."""
        return sum(each.row.parameters > 0 for each in self.measured)


def _recorded(trace: Trace) -> frozenset[int]:
    used = {*distinct(trace.table(GraphTask)["step"]).tolist()}
    used.update(distinct(trace.table(Op)["step"]).tolist())
    return frozenset(step.number for step in steps(trace) if step.id in used)


def _counted(trace: Trace, why: str, what: str) -> int:
    return max(int(trace.meta.get(why, {}).get(what, 0)), 0)


def _begun(trace: Trace, rank: int) -> int:
    """The number of steps that ended, by their rows; the last row is often not a step."""
    table = trace.table(Step)
    own = _of_rank(trace.once(RankOf), rank, table["id"])
    joined = np.maximum(np.asarray(table["joined"])[own], 0)
    return max(len(joined) + int(joined.sum()) - 1, 0)


def _summed_up(trace: Trace, ranks: RankOf, rank: int) -> Sequence[SummedUp]:
    table, known = trace.table(StepSummary), trace.table(Step)
    own = _of_rank(ranks, rank, table["step"])
    rows = {row.step: row for row in table.take(np.flatnonzero(own))}  # the last one of each step
    found = [SummedUp(known.row(step), row) for step, row in rows.items() if known.has(step)]
    return sorted(found, key=lambda each: (each.step.begin, each.number))


def _of_rank(ranks: RankOf, rank: int, ids: Ids) -> Ids:
    if rank == NONE:
        return np.ones(len(ids), np.bool_)
    return np.asarray(ranks.of(Step.TABLE, np.asarray(ids, np.int64)) == rank)


@dataclass(frozen=True, slots=True)
class FirstBad:
    """The first step of a run that ended with values that are not finite."""

    first: SummedUp
    before: SummedUp | None  # the measured step before it, which was finite


def first_bad(trace: Trace) -> FirstBad | None:
    """Where the values of a run stopped being finite, as far as its summaries show.

    Gradients alone are not enough: with a GradScaler some overflow, and the step is skipped. A loss
    that is finite again later did no harm. Parameters that held infinite values from the start,
    as masks do, are part of the program.
    """
    run = trace.once(LongRun).measured
    usual = min((e.row.weight_bad for e in run if e.row.parameters and not _bad_loss(e)), default=0)
    losses = [place for place, each in enumerate(run) if each.has_loss]
    harm = next((i for i, each in enumerate(run) if each.row.weight_bad > usual), None)
    if harm is None and losses and _bad_loss(run[losses[-1]]):
        harm = losses[-1]
    if harm is None:
        return None
    while harm and _is_worse(run[harm - 1], usual):
        harm -= 1
    return FirstBad(run[harm], run[harm - 1] if harm else None)


def _is_worse(each: SummedUp, usual: int) -> bool:
    row = each.row
    return bool(row.gradient_nan + row.gradient_inf) or row.weight_bad > usual or _bad_loss(each)


def _bad_loss(each: SummedUp) -> bool:
    return each.has_loss and not isfinite(each.row.loss)
