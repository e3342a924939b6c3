"""How the gradients of several ranks were combined, parameter by parameter.

Sums are linear: the sum of the elements of an averaged gradient is the average of the sums on all
ranks. So the sums of the gradients that arrived at a parameter on each rank, and the sum of the
gradient that the optimizer used, show how one was made from the others. A gradient whose elements
sum up to about zero shows nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np

from gradscope.analysis.program.acts import Acts, Done
from gradscope.analysis.ranks.merging.one_rank import RankPart, parts
from gradscope.analysis.ranks.whose import listed
from gradscope.errors import UsageError
from gradscope.trace.schema import (
    NONE,
    Gathered,
    Node,
    Place,
    ProcessGroup,
    Shard,
    StepAct,
    Tensor,
    Value,
)
from gradscope.trace.trace import Trace

CLOSE = 2e-3
"""Largest relative difference of sums that are the same; they are rounded."""

SEEN_FROM = 2e-3
"""Smallest sum that shows something, as a share of the norm times the root of the elements."""


class Combining(Enum):
    """How the gradient that was used was made from those of the ranks."""

    AVERAGED = "averaged"
    SUMMED = "summed, not divided"
    DIVIDED = "averaged, and divided by {size} again"
    MULTIPLIED = "summed, and multiplied by {size}"
    SCALED = "averaged, times {factor:.4g}"
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

    @property
    def words(self) -> str:
        """How the gradient was made."""
        shown = listed(self.ranks)
        words = self.how.value.format(ranks=shown, size=len(self.ranks), factor=self.factor)
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


@dataclass(frozen=True, slots=True)
class _Used:
    """A parameter on one rank at one step."""

    name: str
    tensor: int
    shard: str
    norm: float
    sum: float
    size: float  # norm of the parameter
    hash: int
    arrived: float  # sum of the gradients that arrived; NaN: not known
    elements: int

    @property
    def is_part(self) -> bool:
        """Whether this rank holds only a part of the parameter."""
        return "Shard" in self.shard


def audits(
    trace: Trace, number: int | None = None, against: Trace | None = None
) -> tuple[Audit, ...]:
    """Each optimizer at a step: by default the first that was measured on all ranks."""
    if len(trace.meta.get("ranks", ())) < 2:
        raise UsageError(
            "this is the trace of one process; pass the traces of all ranks: trace.rank*.json"
        )
    every = [_Rank(part) for part in trace.once(parts)]
    many = min(len(rank.acts.optimizers) for rank in every)
    other = None if against is None else _Rank(RankPart(0, against, np.zeros(0, np.int64)))
    groups = tuple({row.members for row in trace.rows(ProcessGroup) if len(row.members) > 1})
    found = [_audit(every, at, number, groups, other) for at in range(many)]
    return tuple(each for each in found if each is not None)


class _Rank:
    """What one rank did."""

    def __init__(self, part: RankPart) -> None:
        self.rank, self.trace = part.rank, part.trace
        self.acts = part.trace.once(Acts)
        table = part.trace.table(Tensor)
        self._names = dict(zip(table["id"].tolist(), table.texts("name"), strict=True))
        self._shapes, self._tensors = table.ragged("shape"), table
        self._shards = {row.tensor: row.placements for row in part.trace.rows(Shard)}
        for row in part.trace.rows(Gathered):
            for parameter in row.parameters or (row.leaf,):  # a flat parameter is its own leaf
                self._shards.setdefault(parameter, "Shard(0)")
        self._arrivals = _arrivals(part.trace)

    def measured(self, optimizer: int) -> set[int]:
        """The numbers of the steps whose gradients were measured."""
        steps = self.acts.optimizers[optimizer].steps
        return {at for at, step in enumerate(steps) if step.facts.sums or step.facts.grad}

    def has(self, optimizer: int, number: int) -> bool:
        """Whether an optimizer made this step."""
        every = self.acts.optimizers
        return optimizer < len(every) and number < len(every[optimizer].steps)

    def used(self, optimizer: int, number: int) -> list[_Used]:
        """The parameters at a step."""
        of = self.acts.optimizers[optimizer]
        step, since = of.steps[number], of.steps[number - 1].t if number else 0
        facts = step.facts
        return [
            _Used(
                self._names.get(tensor, ""), tensor, self._shards.get(tensor, ""),
                _cell(facts.grad, at), _cell(facts.sums, at), _cell(facts.size, at),
                int(_cell(facts.hashes, at, NONE)), self._arrived(tensor, since, step.t),
                self._elements(tensor),
            )
            for at, tensor in enumerate(of.tensors)
        ]  # fmt: skip

    def step(self, optimizer: int, number: int) -> Done[StepAct]:
        return self.acts.optimizers[optimizer].steps[number]

    def _elements(self, tensor: int) -> int:
        """Number of elements of a parameter; 0 if it has no row."""
        if not self._tensors.has(tensor):
            return 0
        first, end = self._shapes.offsets[self._tensors.index(tensor) :][:2].tolist()
        return math.prod(self._shapes.values[first:end].tolist())

    def _arrived(self, tensor: int, since: int, until: int) -> float:
        """The sum of the gradients that arrived at a parameter in a period."""
        t, sums = self._arrivals.get(tensor, (np.zeros(0), np.zeros(0)))
        within = (t > since) & (t <= until)
        return float(sums[within].sum()) if within.any() else math.nan


def _cell(cells: Sequence[float], at: int, missing: float = math.nan) -> float:
    return cells[at] if at < len(cells) else missing


def _arrivals(trace: Trace) -> Mapping[int, tuple[np.ndarray, np.ndarray]]:
    """When gradients arrived at each leaf, and the sums of their elements."""
    nodes = trace.table(Node)
    named = [name.startswith("AccumulateGrad") for name in nodes.texts("name")]
    leaves = nodes.take(np.flatnonzero(named))
    leaf = {row.id: row.inputs[0] for row in leaves if row.inputs}
    held = {row.leaf: row.parameters[0] for row in trace.rows(Gathered) if len(row.parameters) == 1}
    values = trace.table(Value)
    arrived = (values["place"] == Place.NODE_INPUT) & np.isin(values["node"], [*leaf])
    chosen = np.flatnonzero(arrived)
    found: dict[int, tuple[list[int], list[float]]] = {}
    for row in values.take(chosen):
        bad = row.nan + row.posinf + row.neginf
        own = leaf[row.node]
        t, sums = found.setdefault(held.get(own, own), ([], []))
        t.append(row.t)
        sums.append(math.nan if bad or not row.count else row.mean * row.count)
    return {tensor: (np.array(t), np.array(sums)) for tensor, (t, sums) in found.items()}


def _audit(
    every: Sequence[_Rank],
    optimizer: int,
    number: int | None,
    groups: Iterable[tuple[int, ...]],
    other: _Rank | None,
) -> Audit | None:
    measured = set.intersection(*(rank.measured(optimizer) for rank in every))
    at = min(measured, default=None) if number is None else number
    if at is None or at not in measured:
        return None
    used = {rank.rank: rank.used(optimizer, at) for rank in every}
    first = every[0]
    alone: dict[str, _Used] = {}
    if other is not None and other.has(optimizer, at):
        alone = {_plain(each.name): each for each in other.used(optimizer, at)}
    same = len({len(each) for each in used.values()}) == 1
    places = range(len(used[first.rank])) if same else range(0)
    step = first.step(optimizer, at)
    return Audit(
        at,
        step.stack,
        first.step(optimizer, at - 1).t if at else 0,
        step.t,
        first.acts.optimizers[optimizer].type,
        tuple(used),
        tuple(
            _judged({rank: each[place] for rank, each in used.items()}, groups, alone)
            for place in places
        ),
    )


def _plain(name: str) -> str:
    """The name of a parameter without what wrappers put before it."""
    while name.startswith(("module.", "_orig_mod.", "_fsdp_wrapped_module.")):
        name = name.partition(".")[2]
    return name


def _judged(
    of: Mapping[int, _Used], groups: Iterable[tuple[int, ...]], alone: Mapping[str, _Used]
) -> AuditedParameter:
    first = next(iter(of.values()))
    how, ranks, factor = _how(of, groups)
    sums, norms = {r: u.sum for r, u in of.items()}, {r: u.norm for r, u in of.items()}
    single = alone.get(_plain(first.name))
    against = math.nan if single is None else _against(_whole(of), single)
    return AuditedParameter(
        first.name, first.tensor, _layout(of), how, ranks, factor, norms, sums, against
    )


def _whole(of: Mapping[int, _Used]) -> _Used:
    """The gradient of all parts of a parameter."""
    first = next(iter(of.values()))
    if not first.is_part:
        return first
    norm = math.sqrt(sum(each.norm**2 for each in of.values()))
    return replace(first, norm=norm, sum=sum(each.sum for each in of.values()))


def _against(used: _Used, single: _Used) -> float:
    """How many times the gradient of one process a gradient is; NaN: not known.

    In one process, what arrived is what was used, unless it was changed.
    """
    wanted = single.arrived if math.isnan(single.sum) else single.sum
    if _shows(wanted, used) and not math.isnan(wanted):
        return used.sum / wanted
    return used.norm / single.norm if single.norm else math.nan


def _layout(of: Mapping[int, _Used]) -> str:
    first = next(iter(of.values()))
    if first.shard:
        return first.shard
    hashes = {each.hash for each in of.values()}
    sizes = {each.size for each in of.values()}
    known = hashes if NONE not in hashes else sizes
    return "replicated" if len(known) == 1 else "different"


def _how(
    of: Mapping[int, _Used], groups: Iterable[tuple[int, ...]]
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
        whole = _whole(of)
        made = {rank: replace(whole, arrived=each.arrived) for rank, each in of.items()}
        found = _combined(made, ranks) if arrived else None
        return (Combining.PARTS, ranks, math.nan) if found is None else (found[0], ranks, found[1])
    equal = len({each.norm for each in of.values()}) == 1 and _close({e.sum for e in of.values()})
    if not arrived:
        return Combining.EQUAL if equal else Combining.APART, ranks, math.nan
    if not equal and all(_is(each.sum, each.arrived, each) for each in of.values()):
        return Combining.OWN, ranks, math.nan
    for members in (ranks, *sorted(groups, key=len, reverse=True)):
        if set(members) <= set(ranks) and (found := _combined(of, members)):
            return *found[:1], members, found[1]
    return Combining.APART if not equal else Combining.UNKNOWN, ranks, math.nan


def _combined(of: Mapping[int, _Used], members: tuple[int, ...]) -> tuple[Combining, float] | None:
    """How the gradients of these ranks were combined on each; None: not over these."""
    own = [of[rank] for rank in members]
    size, total = len(own), sum(each.arrived for each in own)
    mean, used = total / size, own[0].sum
    if not _close({each.sum for each in own}):
        return None
    if _close({each.arrived for each in own}) and _is(used, mean, own[0]):
        return Combining.SAME, 1.0
    if not _shows(mean, own[0]) or not _shows(used, own[0]):
        return None
    kinds = {
        Combining.AVERAGED: 1.0,
        Combining.SUMMED: size,
        Combining.DIVIDED: 1 / size,
        Combining.MULTIPLIED: size * size,
    }
    factor = used / mean
    how = next((how for how, wanted in kinds.items() if _near(factor, wanted)), Combining.SCALED)
    return how, factor


def _shows(value: float, of: _Used) -> bool:
    """Whether a sum is large enough to show something."""
    return abs(value) > SEEN_FROM * of.norm * math.sqrt(max(of.elements, 1)) / 10


def _is(value: float, wanted: float, of: _Used) -> bool:
    room = CLOSE * abs(wanted) + 1e-6 * of.norm * math.sqrt(max(of.elements, 1))
    return abs(value - wanted) <= room


def _near(value: float, wanted: float) -> bool:
    return abs(value - wanted) <= 3 * CLOSE * abs(wanted)


def _close(values: set[float]) -> bool:
    return max(values) - min(values) <= CLOSE * max(abs(each) for each in values)
