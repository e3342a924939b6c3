"""Gradients that ranks combined with those of other parameters.

Two ranks hold parameters of the same names. Then the gradients that they use have the same norms,
if they were combined. Here one rank used for a parameter what another rank used for another one,
and the other way round: gradients were combined by position, and positions differ.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gradscope.analysis.identity.sites import Site, own_site
from gradscope.analysis.program.acts import Acts, Done
from gradscope.analysis.ranks.auditing.measured import plain
from gradscope.analysis.ranks.collectives import last_reduction
from gradscope.analysis.ranks.merging.one_rank import RankPart, equal_parts, parts
from gradscope.analysis.ranks.training.rounds import Steps, steps_together
from gradscope.trace.schema import StepAct, Tensor
from gradscope.trace.trace import Trace

FEW = 3
"""Number of steps that are compared."""

Gradient = tuple[float, ...]
"""The norm of a gradient, and the sum of its elements if it is known."""


@dataclass(frozen=True, slots=True)
class CombinedWithOthers:
    """Parameters of an optimizer whose gradients two ranks exchanged among one another."""

    ranks: tuple[int, int]
    names: tuple[str, str]  # of the same gradient, on each of these ranks
    many: int  # number of parameters that have the gradient of another one
    steps: Mapping[int, Done[StepAct]]  # by rank, the first in which it is seen
    places: tuple[int, int]  # of the first name in the optimizers of these ranks
    site: Site  # the last reduction before that step, or the step


def combined_with_others(trace: Trace) -> tuple[CombinedWithOthers, ...]:
    """One at most for each optimizer."""
    if "ranks" not in trace.meta or len(trace.once(equal_parts)) == 1:
        return ()
    every = trace.once(parts)
    optimizers = {part.rank: part.trace.once(Acts).optimizers for part in every}
    found = []
    for number in range(min(map(len, optimizers.values()), default=0)):
        names = {part.rank: _names(part, number) for part in every}
        steps = {rank: several[number].steps for rank, several in optimizers.items()}
        aligned = [
            each for each in steps_together(trace, steps)
            if len(each) == len(every) and all(
                len(step.facts.grad) == len(names[rank]) for rank, step in each.items()
            )
        ][:FEW]  # fmt: skip
        first, *others = names
        pairs = (_exchanged(trace, (first, rank), names, aligned) for rank in others)
        found += [each for each in pairs if each is not None][:1]
    return tuple(found)


def _names(part: RankPart, optimizer: int) -> tuple[str, ...]:
    table = part.trace.table(Tensor)
    names = dict(zip(table["id"].tolist(), table.texts("name"), strict=True))
    held = part.trace.once(Acts).optimizers[optimizer].tensors
    return tuple(plain(names.get(tensor, "")) for tensor in held)


def _exchanged(
    trace: Trace,
    ranks: tuple[int, int],
    names: Mapping[int, tuple[str, ...]],
    aligned: Sequence[Steps],
) -> CombinedWithOthers | None:
    """What the second of two ranks exchanged, if it is the same in all of these steps."""
    mine, theirs = (names[rank] for rank in ranks)
    if {*mine} != {*theirs} or len({*mine}) < len(mine) or "" in mine or not aligned:
        return None
    seen = [_partners(*(_gradients(names[rank], each[rank]) for rank in ranks)) for each in aligned]
    if not seen[0] or any(each != seen[0] for each in seen):
        return None
    here, there = next(iter(seen[0].items()))
    step = aligned[0][ranks[1]]
    site = last_reduction(trace, ranks[1], step.t) or own_site(trace, step.stack)
    places = mine.index(here), theirs.index(here)
    steps = {rank: aligned[0][rank] for rank in ranks}
    return CombinedWithOthers(ranks, (here, there), len(seen[0]), steps, places, site)


def _gradients(names: Sequence[str], step: Done[StepAct]) -> dict[str, Gradient]:
    facts = step.facts
    columns = [facts.grad, facts.sums] if len(facts.sums) == len(names) else [facts.grad]
    return dict(zip(names, zip(*columns, strict=True), strict=True))


def _partners(mine: Mapping[str, Gradient], theirs: Mapping[str, Gradient]) -> dict[str, str]:
    """By name, the parameter of the other rank with its gradient; empty: some have none."""
    apart = [name for name in mine if mine[name] != theirs[name]]
    by_gradient = {theirs[name]: name for name in apart}
    whole = len(by_gradient) == len(apart) > 1 and {mine[name] for name in apart} == {*by_gradient}
    return {name: by_gradient[mine[name]] for name in apart} if whole else {}
