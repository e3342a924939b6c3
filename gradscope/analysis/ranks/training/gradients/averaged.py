"""Gradients that are averaged over all ranks in some steps, or only within groups of ranks.

If ranks use equal gradients in a step, they were averaged. Nothing is known of programs whose ranks
pass each other parts of a model, or exchange more than single numbers across these groups.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod

import numpy as np

from gradscope.analysis.program.acts import Done
from gradscope.analysis.ranks.merging.one_rank import parts
from gradscope.analysis.ranks.training.rounds import steps_together
from gradscope.trace.schema import Collective, Phase, ProcessGroup, Span, StepAct
from gradscope.trace.trace import Trace

AT_FIRST = 2
"""Number of steps in which one equal gradient shows that ranks average. Later, all must be equal
after a step in which they were not: local SGD may average gradients first, and never again."""

Ranks = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Averaged:
    """How gradients of equal models are averaged."""

    groups: tuple[Ranks, ...]  # within these
    steps: int  # measured steps in which all gradients were equal within each group
    of: int  # measured steps


def averaged(trace: Trace, steps: Mapping[int, Sequence[Done[StepAct]]]) -> Averaged | None:
    """How the gradients of an optimizer are averaged; None: parameters or gradients are different.

    `steps`: by rank. All parameters are equal before the first step.
    """
    if pass_parts(trace) or not any("reduce" in name for name in _collectives(trace)):
        return None
    every = [each for each in steps_together(trace, steps) if len(each) == len(steps)]
    facts = [{rank: step.facts for rank, step in each.items()} for each in every]
    if not facts or not all(each.size for each in facts[0].values()):
        return None
    if len({each.size for each in facts[0].values()}) > 1:
        return None
    grads = [{rank: each.grad for rank, each in of.items()} for of in facts]
    grads = [of for of in grads if all(of.values())]
    ranks = tuple(steps)
    equal = [_are_equal(of, ranks) for of in grads]
    again = any(later and not before for before, later in pairwise(equal))
    if again or _has_equal(grads[:AT_FIRST]):
        return Averaged((ranks,), sum(equal), len(grads))
    groups = _divided(trace, ranks)
    within = [of for of in grads if groups and all(_are_equal(of, each) for each in groups)]
    if not within or len(within) < len(grads) or _cross(trace, groups, steps):
        return None
    return Averaged(groups, len(within), len(grads))


def _are_equal(grads: Mapping[int, Sequence[float]], ranks: Ranks) -> bool:
    """Whether all gradients of a step have the same norm on these ranks, and are not 0."""
    return all(
        len({*by_rank}) == 1 and by_rank[0] > 0
        for by_rank in zip(*(grads[rank] for rank in ranks), strict=False)
    )


def _has_equal(steps: Sequence[Mapping[int, Sequence[float]]]) -> bool:
    """Whether one of the gradients is equal on all ranks in all of these steps, and not 0."""
    many = min((len(grad) for of in steps for grad in of.values()), default=0)
    return any(
        all(len({grad[at] for grad in of.values()}) == 1 for of in steps)
        and all(grad[at] > 0 for of in steps for grad in of.values())
        for at in range(many)
    )


def _divided(trace: Trace, ranks: Ranks) -> tuple[Ranks, ...]:
    """The groups of several ranks that together are all ranks, each rank in one of them."""
    members = {row.members for row in trace.rows(ProcessGroup)}
    for size in sorted({len(each) for each in members if 1 < len(each) < len(ranks)}):
        found = sorted(each for each in members if len(each) == size)
        if sorted(rank for each in found for rank in each) == sorted(ranks):
            return tuple(found)
    return ()


def _cross(
    trace: Trace, groups: Iterable[Ranks], steps: Mapping[int, Sequence[Done[StepAct]]]
) -> bool:
    """Whether ranks of several groups exchange more than single numbers between steps."""
    for part in trace.once(parts):
        began = {row.id: row.begin for row in part.trace.rows(Span)}
        members = {row.id: {*row.members} for row in part.trace.rows(ProcessGroup)}
        own = steps[part.rank]
        for row in part.trace.rows(Collective):
            between = own[0].t < began.get(row.span, -1) < own[-1].t
            inside = any(members.get(row.group, {*()}) <= {*each} for each in groups)
            if between and not inside and row.dtype and prod(row.shape) > 1:
                return True
    return False


def pass_parts(trace: Trace) -> bool:
    """Whether ranks pass each other different parts: then experts may differ on purpose."""
    return any("all_to_all" in name for name in _collectives(trace))


def _collectives(trace: Trace) -> list[str]:
    spans = trace.table(Span)
    return trace.texts(np.unique(spans["name"][spans["phase"] == Phase.COLLECTIVE]))
