"""Gradients that each rank clipped by its own norm before they were combined.

The clipped gradients of ranks are parts of the sum with different weights: a rank with large
gradients is scaled down, the others are not. The average of them is no longer the gradient of the
average loss, and no rank has clipped the average.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from gradscope.analysis.program.acts import Acts, Done
from gradscope.analysis.ranks.merging.one_rank import RankPart, parts
from gradscope.analysis.ranks.training.data.batches import DRAWS
from gradscope.analysis.source.files import SourceFiles
from gradscope.analysis.source.functions import all_statements, last_name
from gradscope.trace.arrays import distinct
from gradscope.trace.schema import (
    NONE,
    Act,
    CameInAct,
    ClipAct,
    Collective,
    Op,
    ProcessGroup,
    Span,
    StepAct,
)
from gradscope.trace.trace import Trace

REDUCES = ("all_reduce", "reduce_scatter", "reduce_scatter_tensor")
"""A learner that gets clipped gradients from workers, by `reduce`, may want them so."""
APART = 1e-2
"""Relative difference of two factors that are not the same."""


@dataclass(frozen=True, slots=True)
class ClippedThenReduced:
    """A call that clipped gradients, and the first reduction of one of them after it."""

    rank: int
    act: Done[ClipAct]
    members: tuple[int, ...]  # of the group that reduced it
    span: int  # the reduction
    stack: int

    @property
    def factor(self) -> float:
        """By which gradients were multiplied."""
        facts = self.act.facts
        return min(1.0, facts.max / facts.norm) if facts.norm > 0 else 1.0


@dataclass(frozen=True, slots=True)
class NoiseOnGradient:
    """A line that adds random numbers to gradients."""

    line: int


@dataclass(frozen=True, slots=True)
class ClippedApart:
    """The first time that ranks clipped by different factors what they combined after that."""

    first: dict[int, ClippedThenReduced]  # by rank
    times: int  # how often factors differed
    of: int  # how often gradients were clipped before they were reduced


def clipped_apart(trace: Trace) -> tuple[ClippedApart, ...]:
    """One for each group of ranks."""
    several = len(trace.meta.get("ranks", ())) > 1
    if not (several and _clips(trace)) or trace.once(SourceFiles).each(noise_on_gradients):
        return ()
    by_group: dict[tuple[int, ...], dict[int, list[ClippedThenReduced]]] = {}
    for part in trace.once(parts):
        for each in _clipped(part):
            by_group.setdefault(each.members, {}).setdefault(part.rank, []).append(each)
    found = (_compared(members, ranks) for members, ranks in by_group.items())
    return tuple(each for each in found if each is not None)


def _clips(trace: Trace) -> bool:
    """Whether any rank clipped: to know that, the acts of each need not be made."""
    return ClipAct.KIND in trace.texts(distinct(trace.table(Act).array("kind")))


def _compared(
    members: tuple[int, ...], ranks: dict[int, list[ClippedThenReduced]]
) -> ClippedApart | None:
    if len(ranks) < 2 or not set(members) <= set(ranks):
        return None
    if len({len(each) for each in ranks.values()}) > 1:
        return None
    rounds = [
        dict(zip(ranks, several, strict=True)) for several in zip(*ranks.values(), strict=True)
    ]
    apart = [
        each
        for each in rounds
        if len({one.act.facts.max for one in each.values()}) == 1 and _differ(each.values())
    ]
    return ClippedApart(apart[0], len(apart), len(rounds)) if apart else None


def _differ(several: Iterable[ClippedThenReduced]) -> bool:
    factors = [each.factor for each in several]
    return max(factors) - min(factors) > APART * max(factors)


def _clipped(part: RankPart) -> Iterator[ClippedThenReduced]:
    """What a rank clipped between a backward and a step, and reduced after that."""
    acts = part.trace.once(Acts)
    clips = acts.of(ClipAct)
    if not clips:
        return
    steps = [act.t for act in acts.of(StepAct)]
    drawn, reductions = _drawn(part.trace), list(_reductions(part.trace))
    for clip in clips:
        until = min((t for t in steps if t > clip.t), default=None)
        if until is None or not clip.facts.norm >= 0 or not clip.facts.max >= 0:
            continue
        held = set(clip.tensors)
        later = (each for each in reductions if clip.t < each[0] < until and held & each[1])
        found = next(later, None)
        if found is None or any(clip.t < t < until for t in drawn):
            continue
        if any(found[0] < each.t < until and held & set(each.tensors) for each in clips):
            continue  # the combined gradient is clipped, too
        yield ClippedThenReduced(part.rank, clip, *found[2:])


def _drawn(trace: Trace) -> list[int]:
    """When random numbers were drawn: noise is added to clipped gradients for privacy."""
    acts = trace.once(Acts)
    named = [act.t for act in acts.of(CameInAct) if act.facts.by in DRAWS]
    calls = trace.table(Op)
    begin = calls["begin"].tolist()
    return named + [t for name, t in zip(calls.texts("name"), begin, strict=True) if name in DRAWS]


def _reductions(trace: Trace) -> Iterator[tuple[int, frozenset[int], tuple[int, ...], int, int]]:
    """When the program reduced gradients over several ranks: of which parameters, and where."""
    spans = {row.id: row for row in trace.rows(Span)}
    members = {row.id: row.members for row in trace.rows(ProcessGroup)}
    found = []
    for row in trace.rows(Collective):
        span, group = spans.get(row.span), members.get(row.group, ())
        if span is None or row.holds != "gradients" or row.caller or len(group) < 2:
            continue
        if span.name.partition(",")[0] in REDUCES and row.stack != NONE:
            found.append((span.begin, frozenset(row.parameters), group, row.span, row.stack))
    yield from sorted(found)


def noise_on_gradients(tree: ast.Module) -> Iterator[NoiseOnGradient]:
    """Statements that read `.grad` and draw random numbers."""
    for each in all_statements(tree):
        if not isinstance(each, ast.Assign | ast.AugAssign | ast.Expr):
            continue
        inside = list(ast.walk(each))
        draws = any(isinstance(one, ast.Call) and last_name(one.func) in DRAWS for one in inside)
        if draws and any(isinstance(one, ast.Attribute) and one.attr == "grad" for one in inside):
            yield NoiseOnGradient(each.lineno)
