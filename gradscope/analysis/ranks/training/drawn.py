"""Ranks that draw the same random numbers: their generators have the same states at each step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from gradscope.analysis.lookups import grouped
from gradscope.analysis.program.acts import Acts, Done
from gradscope.analysis.ranks.one_rank import parts
from gradscope.analysis.ranks.replicas import replicated
from gradscope.trace.schema import NONE, SeedAct, StepAct
from gradscope.trace.trace import Trace

FEWEST = 3
"""Least number of steps."""


@dataclass(frozen=True, slots=True)
class SameDraws:
    """Ranks whose generators had the same states at each step of an optimizer."""

    ranks: tuple[int, ...]
    steps: int
    drew: int  # number of steps between which numbers were drawn
    first: Done[StepAct]  # of the first rank
    seeded: Done[SeedAct] | None  # there


def same_draws(trace: Trace) -> tuple[SameDraws, ...]:
    """Replicas that drew the same numbers in most of their steps."""
    if "ranks" not in trace.meta:
        return ()
    every = [
        ((group, number, states), part.rank, steps, acts.of(SeedAct))
        for part in trace.once(parts)
        for acts in [part.trace.once(Acts)]
        for group in dict.fromkeys(group for group, _ in replicated(part.trace))
        for number, states, steps in _states(acts)
    ]
    several = grouped(every, lambda each: each[0])
    found: dict[tuple[int, ...], SameDraws] = {}
    for (_, _, states), same in several.items():
        drew = sum(a != b for a, b in pairwise(states))
        ranks, (_, _, steps, seeds) = tuple(rank for _, rank, *_ in same), same[0]
        if len(same) > 1 and 2 * drew >= len(states) - 1:
            own = [act for act in seeds if not act.facts.whose and act.t < steps[0].t]
            last = own[-1] if own else None
            found.setdefault(ranks, SameDraws(ranks, len(states), drew, steps[0], last))
    return tuple(found.values())


States = tuple[int, ...]


def _states(acts: Acts) -> Iterator[tuple[int, States, tuple[Done[StepAct], ...]]]:
    """The states at the steps of each optimizer, with its number, where all were recorded."""
    for number, optimizer in enumerate(acts.optimizers):
        states = tuple(step.facts.random for step in optimizer.steps)
        if len(states) >= FEWEST and NONE not in states:
            yield number, states, optimizer.steps
