"""The rank that others wait for because it computes more in each step, such as longer sequences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from gradscope.analysis.identity.sites import Site, own_site
from gradscope.analysis.identity.steps import step_numbers
from gradscope.analysis.lookups import grouped
from gradscope.analysis.ranks.merging.one_rank import RankPart
from gradscope.analysis.ranks.training.slow import WaitedFor, slow_ranks, waited_for
from gradscope.trace.schema import NONE, Op, Tensor
from gradscope.trace.trace import Trace

MORE = 1.25
"""Least factor between the values that a rank computes in a step and those of others."""

Call = tuple[str, int, tuple[int, ...]]
"""Its name, its stack, and the shape of its first result."""


@dataclass(frozen=True, slots=True)
class HeavierRank:
    """A rank that came last in most steps, and computed more than others in each of them."""

    waited: WaitedFor
    factor: float  # between the number of values that it computes, and that of the others at most
    site: Site  # the first line at which results have other shapes
    shapes: Mapping[int, tuple[int, ...]]  # by rank, there


def heavier_ranks(trace: Trace) -> tuple[HeavierRank, ...]:
    """At most one for each group; none where a line explains it, see `slow_ranks`."""
    known = {each.rank for each in trace.once(slow_ranks)}
    found = (_heavier(each) for each in trace.once(waited_for) if each.rank not in known)
    return tuple(each for each in found if each is not None)


def _heavier(waited: WaitedFor) -> HeavierRank | None:
    calls = {part.rank: _calls(part, waited.numbers) for part in waited.parts}
    totals = {
        rank: np.array([sum(prod(shape) for *_, shape in own[step]) for step in waited.numbers])
        for rank, own in calls.items()
    }
    mine = totals.pop(waited.rank)
    most = np.max([*totals.values()], axis=0)
    if not most.all() or float(np.percentile(mine / most, 10)) < MORE:
        return None
    step = waited.numbers[0]
    other = max(totals, key=lambda rank: int(totals[rank][0]))
    own = next(part.trace for part in waited.parts if part.rank == waited.rank)
    for (name, stack, shape), (also, _, than) in zip(
        calls[waited.rank][step], calls[other][step], strict=False
    ):
        if name != also:
            return None
        if prod(shape) > prod(than):
            factor = float(np.median(mine / most))
            site = own_site(own, stack)
            return HeavierRank(waited, factor, site, {waited.rank: shape, other: than})
    return None


def _calls(part: RankPart, numbers: Sequence[int]) -> Mapping[int, list[Call]]:
    """The calls outside of backwards, by the number of the step, in their order."""
    known = step_numbers(part.trace)
    wanted = {id for id, number in known.items() if number in {*numbers}}
    found = grouped(_of_steps(part.trace, wanted), lambda each: known[each[0]])
    return {number: [call for _, call in found.get(number, ())] for number in numbers}


def _of_steps(trace: Trace, steps: set[int]) -> Iterator[tuple[int, Call]]:
    ops, tensors = trace.table(Op), trace.table(Tensor)
    chosen = np.flatnonzero(np.isin(ops["step"], [*steps]) & (ops["task"] == NONE))
    for row in sorted(ops.take(chosen), key=lambda row: row.begin):
        if row.outputs and tensors.has(row.outputs[0]):
            yield row.step, (row.name, row.stack, tensors.row(row.outputs[0]).shape)
