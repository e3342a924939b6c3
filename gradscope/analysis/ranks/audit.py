"""How the gradients of several ranks were combined, parameter by parameter.

Sums are linear: the sum of the elements of an averaged gradient is the average of the sums on all
ranks. So the sums of the gradients that arrived at a parameter on each rank, and the sum of the
gradient that the optimizer used, show how one was made from the others. A gradient whose elements
sum up to about zero shows nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

import numpy as np

from gradscope.analysis.ranks.auditing.measured import (
    MeasuredGradient,
    MeasuredRank,
    are_close,
    is_near,
    is_same,
    plain,
    shows,
)
from gradscope.analysis.ranks.auditing.scaled_parts import (
    PartScale,
    copies,
    part_scales,
)
from gradscope.analysis.ranks.auditing.together import numbers_together
from gradscope.analysis.ranks.merging.one_rank import RankPart, parts
from gradscope.analysis.ranks.whose import listed, norms_in_words
from gradscope.errors import UsageError
from gradscope.trace.schema import NONE, ProcessGroup
from gradscope.trace.trace import Trace


class Combining(Enum):
    """How the gradient that was used was made from those of the ranks."""

    AVERAGED = "averaged"
    SUMMED = "summed, not divided"
    DIVIDED = "averaged, and divided by {size} again"
    MULTIPLIED = "summed, and multiplied by {size}"
    SCALED = "averaged, times {factor:.4g}"
    EACH = "averaged, times {factors}"
    OWN = "not combined"
    SAME = "the same before and after"
    APART = "different on each rank"
    EQUAL = "equal"
    PARTS = "parts"
    NOT_ALL = "none on {ranks}"
    UNKNOWN = "cannot be told"
    NOT_SEEN = "not measured"


COMBINED = (
    Combining.AVERAGED,
    Combining.SUMMED,
    Combining.DIVIDED,
    Combining.MULTIPLIED,
    Combining.SCALED,
    Combining.EACH,
)


@dataclass(frozen=True, slots=True)
class AuditedParameter:
    """One parameter at one step."""

    name: str
    tensor: int  # on the first rank
    layout: str  # "replicated", "Shard(0)", "different"
    how: Combining
    ranks: tuple[int, ...]  # that are meant by `how`
    factor: float  # of the average of what arrived; NaN: not known
    norms: dict[int, float]  # of the gradient that was used, by rank
    sums: dict[int, float]
    against: float = math.nan  # how many times the gradient of the other run; NaN: not known
    factors: Mapping[int, float] = field(default_factory=dict)  # by rank, if they differ
    unlike: bool = False  # whether these `ranks` hold clearly different values of the parameter

    @property
    def words(self) -> str:
        """How the gradient was made."""
        shown = listed(self.ranks)
        words = self.how.value.format(
            ranks=shown, size=len(self.ranks), factor=self.factor,
            factors=norms_in_words(self.factors) if self.factors else "",
        )  # fmt: skip
        over = self.how in COMBINED and self.ranks != tuple(self.norms)
        return f"{words}, over {shown} only" if over else words


@dataclass(frozen=True, slots=True)
class Audit:
    """All parameters of an optimizer at one step."""

    number: int  # of the step of the optimizer, from 0
    stack: int  # its line
    since: int  # the step before, or 0, and this one, on the first rank
    until: int
    optimizer: str
    ranks: tuple[int, ...]
    parameters: tuple[AuditedParameter, ...]
    numbers: Mapping[int, int]  # by rank, the number of the step there
    has_arrivals: bool = True  # gradients that arrived at some leaves were measured
    why: str = ""  # why nothing was compared; "": it was


def audits(
    trace: Trace, number: int | None = None, against: Trace | None = None, *, some: bool = False
) -> tuple[Audit, ...]:
    """Each optimizer at a step: by default the first that was measured on all ranks.

    Where ranks have different parameters, nothing is compared; `some`: those that have the same
    are compared with each other.
    """
    if len(trace.meta.get("ranks", ())) < 2:
        raise UsageError(
            "this is the trace of one process; pass the traces of all ranks: trace.rank*.json"
        )
    every = [MeasuredRank(part) for part in trace.once(parts)]
    many = min(len(rank.acts.optimizers) for rank in every)
    other = None if against is None else MeasuredRank(RankPart(0, against, np.zeros(0, np.int64)))
    groups = tuple({row.members for row in trace.rows(ProcessGroup) if len(row.members) > 1})
    found: list[Audit | None] = []
    for at in range(many):
        alike = _alike(every, at)
        several = [each for each in alike if len(each) > 1]
        if len(alike) == 1:
            found.append(_audit(every, at, number, groups, other))
        elif some and several:
            found += [_audit(ranks, at, number, groups, other) for ranks in several]
        else:
            found.append(_nothing(every, at, number or 0, _different(every, at)))
    return tuple(each for each in found if each is not None)


def why_none(trace: Trace, number: int | None) -> str:
    """Why there is no audit of any optimizer."""
    every = [MeasuredRank(part) for part in trace.once(parts)]
    without = [rank.rank for rank in every if not rank.acts.optimizers]
    if without:
        return f"there is no optimizer on {listed(without)}, so there is nothing to compare"
    shown = "no step was measured" if number is None else f"step {number} was not measured"
    return (
        f"{shown} on all ranks; a recording with --level values measures each step of an optimizer"
    )


def _alike(every: Sequence[MeasuredRank], optimizer: int) -> list[list[MeasuredRank]]:
    """Ranks whose optimizers have the same parameters, by their names."""
    found: dict[tuple[str, ...], list[MeasuredRank]] = {}
    for rank in every:
        found.setdefault(rank.names(optimizer), []).append(rank)
    return [*found.values()]


def _different(every: Sequence[MeasuredRank], optimizer: int) -> str:
    many = {rank.rank: len(rank.names(optimizer)) for rank in every}
    if len({*many.values()}) == 1:
        return "the ranks optimize different parameters, so there is nothing to compare"
    return (
        "the ranks optimize different parameters, so there is nothing to compare: "
        f"{norms_in_words(many)}"
    )


def _nothing(every: Sequence[MeasuredRank], optimizer: int, at: int, why: str) -> Audit | None:
    """An audit without parameters."""
    first = every[0]
    if not first.has(optimizer, at):
        return None
    step = first.step(optimizer, at)
    return Audit(
        at, step.stack, step.t, step.t, first.acts.optimizers[optimizer].type,
        tuple(rank.rank for rank in every), (), {}, why=why,
    )  # fmt: skip


def _audit(
    every: Sequence[MeasuredRank],
    optimizer: int,
    number: int | None,
    groups: Iterable[tuple[int, ...]],
    other: MeasuredRank | None,
) -> Audit | None:
    first, meetings = every[0], [rank.meetings for rank in every]
    times = {rank.rank: rank.times(optimizer) for rank in every}
    measured = {rank.rank: rank.measured(optimizer) for rank in every}
    wanted = sorted(measured[first.rank]) if number is None else [number]
    missed: Audit | None = None
    for at in wanted:
        numbers = numbers_together(meetings, times, at)
        known = {rank: each for rank, each in numbers.items() if each is not None}
        if len(known) == len(every):
            if all(each in measured[rank] for rank, each in known.items()):
                return _compared(every, optimizer, known, groups, other)
        elif at in measured[first.rank] and missed is None:
            without = listed([rank for rank in numbers if rank not in known])
            why = f"not compared: no step of {without} is known to belong to it"
            missed = _nothing(every, optimizer, at, why)
    return missed


def _compared(
    every: Sequence[MeasuredRank],
    optimizer: int,
    numbers: Mapping[int, int],
    groups: Iterable[tuple[int, ...]],
    other: MeasuredRank | None,
) -> Audit:
    """The parameters of an optimizer at a step that the ranks made together."""
    used = {rank.rank: rank.used(optimizer, numbers[rank.rank]) for rank in every}
    first = every[0]
    at = numbers[first.rank]
    alone: dict[str, MeasuredGradient] = {}
    if other is not None and other.has(optimizer, at):
        alone = {plain(each.name): each for each in other.used(optimizer, at)}
    step = first.step(optimizer, at)
    rows = [
        {rank: each[place] for rank, each in used.items()} for place in range(len(used[first.rank]))
    ]
    scales = _scales(rows)
    return Audit(
        at,
        step.stack,
        first.step(optimizer, at - 1).t if at else 0,
        step.t,
        first.acts.optimizers[optimizer].type,
        tuple(used),
        tuple(_judged(of, groups, alone, scales.get(place)) for place, of in enumerate(rows)),
        numbers,
        any(rank.has_arrivals for rank in every),
    )


def _scales(rows: Sequence[Mapping[int, MeasuredGradient]]) -> dict[int, PartScale | None]:
    """By the place of a parameter of which ranks have parts, how these were scaled."""
    chosen = [
        place for place, of in enumerate(rows)
        if next(iter(of.values())).is_part and not any(math.isnan(e.norm) for e in of.values())
    ]  # fmt: skip
    if not chosen:
        return {}
    kinds = [*_kinds(len(rows[0])).values()]
    found = part_scales([rows[place] for place in chosen], kinds)
    return dict(zip(chosen, found, strict=True))


def _judged(
    of: Mapping[int, MeasuredGradient],
    groups: Iterable[tuple[int, ...]],
    alone: Mapping[str, MeasuredGradient],
    scale: PartScale | None,
) -> AuditedParameter:
    first = next(iter(of.values()))
    how, ranks, factor = _how(of, groups, scale)
    sums, norms = {r: u.sum for r, u in of.items()}, {r: u.norm for r, u in of.items()}
    single = alone.get(plain(first.name))
    against = math.nan if single is None else _against(_whole(of), single)
    return AuditedParameter(
        first.name, first.tensor, _layout(of), how, ranks, factor, norms, sums, against,
        scale.by_rank if how is Combining.EACH and scale is not None else {},
        len({of[rank].hash for rank in ranks}) > 1 and not are_close({of[r].size for r in ranks}),
    )  # fmt: skip


def _whole(of: Mapping[int, MeasuredGradient]) -> MeasuredGradient:
    """The gradient of all parts of a parameter."""
    first = next(iter(of.values()))
    if not first.is_part:
        return first
    many = copies(of) or 1
    norm = math.sqrt(sum(each.norm**2 for each in of.values()) / many)
    return replace(first, norm=norm, sum=sum(each.sum for each in of.values()) / many)


def _against(used: MeasuredGradient, single: MeasuredGradient) -> float:
    """How many times the gradient of one process a gradient is; NaN: not known.

    In one process, what arrived is what was used, unless it was changed.
    """
    wanted = single.arrived if math.isnan(single.sum) else single.sum
    if shows(wanted, used.norm, used.elements) and not math.isnan(wanted):
        return used.sum / wanted
    return used.norm / single.norm if single.norm else math.nan


def _layout(of: Mapping[int, MeasuredGradient]) -> str:
    first = next(iter(of.values()))
    if first.shard:
        return first.shard
    hashes = {each.hash for each in of.values()}
    sizes = {each.size for each in of.values()}
    known = hashes if NONE not in hashes else sizes
    return "replicated" if len(known) == 1 else "different"


def _how(
    of: Mapping[int, MeasuredGradient], groups: Iterable[tuple[int, ...]], scale: PartScale | None
) -> tuple[Combining, tuple[int, ...], float]:
    ranks = tuple(of)
    without = tuple(rank for rank, each in of.items() if math.isnan(each.norm))
    if len(without) == len(of):
        return Combining.NOT_SEEN, ranks, math.nan
    if without:
        return Combining.NOT_ALL, without, math.nan
    if all(each.norm == 0 for each in of.values()):
        return Combining.SAME, ranks, 1.0
    arrived = not any(math.isnan(each.arrived) for each in of.values())
    if next(iter(of.values())).is_part:
        return _of_parts(of, scale)
    equal = len({each.norm for each in of.values()}) == 1 and are_close(
        {e.sum for e in of.values()}
    )
    if not arrived:
        return Combining.EQUAL if equal else Combining.APART, ranks, math.nan
    if not equal and all(is_same(each.sum, each.arrived, each) for each in of.values()):
        return Combining.OWN, ranks, math.nan
    for members in (ranks, *sorted(groups, key=len, reverse=True)):
        if set(members) <= set(ranks) and (found := _combined(of, members)):
            return *found[:1], members, found[1]
    return Combining.APART if not equal else Combining.UNKNOWN, ranks, math.nan


def _of_parts(
    of: Mapping[int, MeasuredGradient], scale: PartScale | None
) -> tuple[Combining, tuple[int, ...], float]:
    ranks = tuple(of)
    told = any(shows(each.arrived, each.norm, each.elements) for each in of.values())
    own = all(is_same(each.sum, each.arrived, each) for each in of.values())
    if scale is None or (told and own):
        return Combining.PARTS, ranks, math.nan
    if scale.by_rank:
        return Combining.EACH, ranks, math.nan
    if math.isnan(scale.factor):
        return Combining.UNKNOWN, ranks, math.nan
    return _kind(scale.factor, len(of)), ranks, scale.factor


def _kinds(size: int) -> dict[Combining, float]:
    """The usual factors of an average."""
    return {
        Combining.AVERAGED: 1.0,
        Combining.SUMMED: size,
        Combining.DIVIDED: 1 / size,
        Combining.MULTIPLIED: size * size,
    }


def _kind(factor: float, size: int) -> Combining:
    kinds = _kinds(size).items()
    return next((how for how, wanted in kinds if is_near(factor, wanted)), Combining.SCALED)


def _combined(
    of: Mapping[int, MeasuredGradient], members: tuple[int, ...]
) -> tuple[Combining, float] | None:
    """How the gradients of these ranks were combined on each; None: not over these."""
    own = [of[rank] for rank in members]
    size, total = len(own), sum(each.arrived for each in own)
    mean, used = total / size, own[0].sum
    if not are_close({each.sum for each in own}):
        return None
    if are_close({each.arrived for each in own}) and is_same(used, mean, own[0]):
        return Combining.SAME, 1.0
    if not shows(mean, own[0].norm, own[0].elements) or not shows(
        used, own[0].norm, own[0].elements
    ):
        return None
    factor = used / mean
    return _kind(factor, size), factor
