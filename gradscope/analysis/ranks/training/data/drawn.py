"""Ranks that draw the same random numbers: their generators have the same states at each step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, pairwise

from gradscope.analysis.identity.sites import Site
from gradscope.analysis.lookups import grouped
from gradscope.analysis.program.acts import Acts, Done
from gradscope.analysis.ranks.merging.one_rank import RankPart, parts
from gradscope.analysis.ranks.replicas import replicated
from gradscope.analysis.ranks.training.data.loaders import together
from gradscope.trace.schema import NONE, DrewAct, GivenAct, SeedAct, StepAct
from gradscope.trace.trace import Trace

FEWEST = 3
"""Least number of steps."""

NOISE = "randn_like"
"""The call that draws noise for data that exists; what `randn` draws may be the data itself."""


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
        for group in dict.fromkeys(group for group, _ in part.trace.once(replicated))
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


@dataclass(frozen=True, slots=True)
class SameNoise:
    """Two ranks that drew the same noise for other data."""

    ranks: tuple[int, int]
    by: str  # "randn_like"
    site: Site  # the line that drew it, on the first rank
    steps: int


def same_noise(trace: Trace) -> tuple[SameNoise, ...]:
    """Lines that drew the same numbers on two ranks in each step, as many as there are samples.

    The models of these ranks must have been given other data, in all steps.
    """
    found = []
    for ranks in trace.once(together).values():
        drew = {part.rank: _noise(part) for part in ranks}
        for one, other in combinations(ranks, 2):
            lines = drew[one.rank].items() if _have_other_data(one, other) else ()
            for (by, site), draws in lines:
                theirs = drew[other.rank].get((by, site), [])
                pairs = list(zip(draws, theirs, strict=False))
                same = all(a.facts.digest == b.facts.digest for a, b in pairs)
                steps = len({a.facts.digest for a, _ in pairs})
                if same and steps >= FEWEST:
                    found.append(SameNoise((one.rank, other.rank), by, site, steps))
    return tuple(found)


def _noise(part: RankPart) -> dict[tuple[str, Site], list[Done[DrewAct]]]:
    """The draws of noise of a rank, with a row for each sample that its model was given."""
    acts = part.trace.once(Acts)
    given = [act for act in acts.of(GivenAct) if act.facts.grad and act.facts.many]
    rows = {(act.step, act.facts.many[0]) for act in given}
    drew = [
        act for act in acts.of(DrewAct)
        if act.facts.by == NOISE and act.facts.many > 1 and (act.step, act.facts.many) in rows
    ]  # fmt: skip
    return grouped(drew, lambda act: (act.facts.by, acts.site(act)))


def _have_other_data(one: RankPart, other: RankPart) -> bool:
    """Whether the models of two ranks were given other data, in each step."""
    mine, theirs = (
        [act.facts.digests for act in part.trace.once(Acts).of(GivenAct) if act.facts.grad]
        for part in (one, other)
    )
    pairs = list(zip(mine, theirs, strict=False))
    known = all(a and b and NONE not in (*a, *b) for a, b in pairs)
    return len(pairs) >= FEWEST and known and not any({*a} & {*b} for a, b in pairs)


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
