"""Ranks that draw the same random numbers: their generators have the same states at each step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from gradscope.analysis.identity.sites import Site
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
    site: Site  # the line that seeded it; or that of the step


def same_draws(trace: Trace) -> tuple[SameDraws, ...]:
    """Replicas that drew the same numbers in most of their steps."""
    if "ranks" not in trace.meta:
        return ()
    every = [
        ((group, number, states), part.rank, steps, acts)
        for part in trace.once(parts)
        for acts in [part.trace.once(Acts)]
        for group in dict.fromkeys(group for group, _ in replicated(part.trace))
        for number, states, steps in _states(acts)
    ]
    several = grouped(every, lambda each: each[0])
    found: dict[tuple[int, ...], SameDraws] = {}
    for (_, _, states), same in several.items():
        drew = sum(a != b for a, b in pairwise(states))
        ranks, (_, _, steps, acts) = tuple(rank for _, rank, *_ in same), same[0]
        if len(same) > 1 and 2 * drew >= len(states) - 1:
            own = [act for act in acts.of(SeedAct) if not act.facts.whose and act.t < steps[0].t]
            last = own[-1] if own else None
            site = _line(acts, last) if last else acts.site(steps[0])
            found.setdefault(ranks, SameDraws(ranks, len(states), drew, steps[0], last, site))
    return tuple(found.values())


def _line(acts: Acts, seeded: Done[SeedAct]) -> Site:
    """The line that seeded, or the one that called a function only for seeding."""
    sites = acts.sites(seeded)
    frames = acts.trace.frames(seeded.stack)
    only = len(sites) > 1 and bool(frames) and "seed" in frames[0].function
    return sites[1] if only else sites[0]


States = tuple[int, ...]


def _states(acts: Acts) -> Iterator[tuple[int, States, tuple[Done[StepAct], ...]]]:
    """The states at the steps of each optimizer, with its number, where all were recorded."""
    for number, optimizer in enumerate(acts.optimizers):
        states = tuple(step.facts.random for step in optimizer.steps)
        if len(states) >= FEWEST and NONE not in states:
            yield number, states, optimizer.steps
