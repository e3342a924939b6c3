"""The data that each rank passed to its model, by step: sizes, and statistics that tell it apart.

Data is what a call took that no recorded call has computed and that requires no gradient. The same
argument of the same call of a line, in each step, is one slot: the images, the labels.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import NamedTuple

import numpy as np

from gradscope.analysis.identity.sites import own_site
from gradscope.analysis.lookups import Ids, grouped
from gradscope.analysis.program.acts import Acts
from gradscope.analysis.ranks.one_rank import RankPart, parts
from gradscope.analysis.ranks.replicas import Group, replicated
from gradscope.trace.schema import NONE, CameInAct, Op, Place, Tensor, Value
from gradscope.trace.trace import Trace

DRAWS = frozenset((
    "rand", "randn", "randint", "randperm", "rand_like", "randn_like", "randint_like", "normal",
    "bernoulli", "multinomial", "uniform_", "normal_", "bernoulli_", "poisson", "dropout",
))  # fmt: skip
"""Calls whose results are random numbers."""

FEWEST = 4
"""Number of batches in a row from which on it is no coincidence that they are equal."""

FARTHEST = 2
"""Largest number of steps between equal batches: ranks may take turns in later epochs."""

WIDE = 100
"""Range of whole numbers that tell batches apart; smaller ones may be labels."""

SHORTEST = 3
"""Least number of batches of an epoch."""


class Slot(NamedTuple):
    """An argument of a call of a step."""

    place: str  # "train.py:41"
    name: str  # of the operation
    number: int  # among those of this line and operation in a step


class Look(NamedTuple):
    """Statistics of a tensor, which differ if values do."""

    many: int  # number of elements
    zero: int
    min: float
    max: float
    mean: float
    rms: float


@dataclass(frozen=True, slots=True)
class Input:
    """What a rank passed in one slot in one step."""

    step: int  # its id
    slot: Slot
    tensor: int
    shape: tuple[int, ...]
    op: int  # the call that took it
    look: Look | None  # None: not measured, or it does not tell batches apart


@dataclass(frozen=True, slots=True)
class Fed:
    """The data of a rank, by slot and in the order of steps."""

    part: RankPart
    groups: frozenset[Group]  # whose models it holds
    slots: Mapping[Slot, tuple[Input, ...]]


@dataclass(frozen=True, slots=True)
class Shared:
    """Two ranks had the same batches, in the same order."""

    ranks: tuple[int, int]
    first: Input  # of the first of these ranks
    later: int  # number of steps by which the second rank had them later; negative: earlier
    many: int  # number of batches
    of: int  # number of batches of the rank with fewer


@dataclass(frozen=True, slots=True)
class Again:
    """A rank had the same batches again, in the same order."""

    rank: int
    first: Input
    every: int  # number of steps until they began again
    times: int  # how often they were complete


def fed(trace: Trace) -> tuple[Fed, ...]:
    """The data of the ranks of DistributedDataParallel; none in the trace of one process."""
    if "ranks" not in trace.meta:
        return ()
    found = []
    for part in trace.once(parts):
        groups = frozenset(group for group, _ in replicated(part.trace))
        if groups:
            found.append(Fed(part, groups, grouped_by_slot(part.trace)))
    return tuple(found)


def grouped_by_slot(trace: Trace) -> dict[Slot, tuple[Input, ...]]:
    """The slots of the trace of one process. What is drawn in each step tells nothing apart."""
    found = grouped(_inputs(trace), lambda each: each.slot)
    drawn = _drawn(trace)
    return {
        slot: tuple(
            replace(each, look=None) if any(one.tensor in drawn for one in several) else each
            for each in several
        )
        for slot, several in found.items()
    }


def shared(trace: Trace) -> tuple[Shared, ...]:
    """The longest row of equal batches of each two ranks, if it is most of what they had."""
    found: list[Shared] = []
    for one, other in combinations(trace.once(fed), 2):
        if one.groups & other.groups:
            slots = [slot for slot in one.slots if _differ(one, slot) and _differ(other, slot)]
            every = [each for slot in slots if (each := _shared(one, other, slot))]
            if every and len(every) == len(slots):  # or else only a part of a batch is equal
                found.append(max(every, key=lambda each: each.many))
    return tuple(found)


def again(trace: Trace) -> tuple[Again, ...]:
    """The ranks that had all their batches again in the same order."""
    found = []
    for each in trace.once(fed):
        for inputs in each.slots.values():
            looks = [one.look for one in inputs]
            every = _period(looks)
            if every:
                times = len(looks) // every
                found.append(Again(each.part.rank, inputs[0], every, times))
                break
    return tuple(found)


# -- inputs ---------------------------------------------------------------------------------------


def _inputs(trace: Trace) -> Iterator[Input]:
    """All inputs, in the order of the calls that took them."""
    ops, tensors = trace.table(Op), trace.table(Tensor)
    looks, numbers = _looks(trace), Counter[tuple[int, str, str]]()
    known: dict[int, str] = {}
    rows = sorted((row for row in ops.take(_takers(trace))), key=lambda row: (row.begin, row.id))
    for row in rows:
        if row.stack not in known:
            known[row.stack] = own_site(trace, row.stack).place
        place = known[row.stack]
        for tensor in row.inputs:
            if not tensors.has(tensor):
                continue
            facts = tensors.row(tensor)
            if facts.op != NONE or facts.requires_grad or not facts.shape:
                continue
            number = numbers[row.step, place, row.name]
            numbers[row.step, place, row.name] += 1
            slot = Slot(place, row.name, number)
            yield Input(row.step, slot, tensor, facts.shape, row.id, looks.get(tensor))


def _takers(trace: Trace) -> Ids:
    """The positions of calls of the forward pass that created a node."""
    ops = trace.table(Op)
    chosen = (ops["node"] != NONE) & (ops["task"] == NONE) & (ops["step"] != NONE)
    return np.flatnonzero(chosen)


def _looks(trace: Trace) -> dict[int, Look]:
    """The statistics of tensors that tell them apart, by tensor."""
    values = trace.table(Value)
    chosen = (values["place"] == Place.LEAF) & (values["tensor"] != NONE)
    whole = _whole_numbers(trace)
    found = {}
    for row in values.take(np.flatnonzero(chosen)):
        look = Look(row.count, row.zero, row.min, row.max, row.mean, row.rms)
        if not _is_plain(look) and (row.tensor not in whole or row.max - row.min >= WIDE):
            found[row.tensor] = look
    return found


def _whole_numbers(trace: Trace) -> set[int]:
    tensors = trace.table(Tensor)
    dtypes = zip(tensors["id"].tolist(), tensors.texts("dtype"), strict=True)
    return {id for id, dtype in dtypes if not dtype.startswith(("float", "bfloat", "complex"))}


def _is_plain(look: Look) -> bool:
    """Whether it has at most two different values, as a mask has, or is not finite."""
    if not look.min < look.max:
        return True
    return look.min == 0 and abs(look.mean * look.many / look.max + look.zero - look.many) < 0.01


def _drawn(trace: Trace) -> set[int]:
    """Tensors with random numbers that were drawn in the step that used them."""
    acts = trace.once(Acts).of(CameInAct)
    return {
        tensor
        for act in acts
        if act.facts.by in DRAWS and act.step != NONE
        for tensor in act.tensors
        if (act.step, tensor) in trace.once(_used_in)
    }


def _used_in(trace: Trace) -> set[tuple[int, int]]:
    """Steps, except for the first one, and the tensors that were passed in them."""
    ops = trace.table(Op)
    inputs = ops.ragged("inputs")
    steps = ops["step"][inputs.owners]
    first = min((step for step in steps.tolist() if step != NONE), default=NONE)
    pairs = zip(steps.tolist(), inputs.values.tolist(), strict=True)
    return {(step, tensor) for step, tensor in pairs if step > first}


# -- comparison -----------------------------------------------------------------------------------


def _differ(one: Fed, slot: Slot) -> bool:
    """Whether several batches of a rank can be told apart by what it passed there."""
    return len({each.look for each in one.slots.get(slot, ()) if each.look}) >= FEWEST


def _shared(one: Fed, other: Fed, slot: Slot) -> Shared | None:
    mine, theirs = one.slots[slot], other.slots[slot]
    fewer = min(len(mine), len(theirs))
    best: Shared | None = None
    for later in range(-FARTHEST, FARTHEST + 1):
        pairs = list(zip(mine[max(-later, 0) :], theirs[max(later, 0) :], strict=False))
        row: list[Input] = []
        for a, b in pairs:
            row = [*row, a] if a.look is not None and a.look == b.look else []
            if len({each.look for each in row}) < len(row):
                row = [a]  # a batch that comes again does not count twice
            if len(row) > max(best.many if best else FEWEST - 1, (fewer - 1) // 2):
                best = Shared((one.part.rank, other.part.rank), row[0], later, len(row), fewer)
    return best


def _period(looks: Sequence[Look | None]) -> int:
    """The number of batches after which all of them come again in the same order; or 0."""
    if len(looks) < 2 * SHORTEST or None in looks:
        return 0
    every = looks.index(looks[0], 1) if looks[0] in looks[1:] else 0
    if every < SHORTEST or len(looks) < 2 * every or len({*looks[:every]}) < every:
        return 0
    return every if all(a == b for a, b in zip(looks, looks[every:], strict=False)) else 0
