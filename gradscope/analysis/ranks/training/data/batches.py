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

from gradscope.analysis.identity.sites import Site, own_site, site_of_row
from gradscope.analysis.lookups import Ids, grouped
from gradscope.analysis.program.acts import Acts, Origins
from gradscope.analysis.ranks.merging.one_rank import RankPart, parts
from gradscope.analysis.ranks.replicas import Group, replicated
from gradscope.analysis.ranks.training.branches import loop_around
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


class InputSlot(NamedTuple):
    """An argument of a call of a step."""

    place: str  # "train.py:41"
    name: str  # of the operation
    number: int  # among those of this line and operation in a step


class BatchLook(NamedTuple):
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
    slot: InputSlot
    tensor: int
    shape: tuple[int, ...]
    op: int  # the call that took it
    look: BatchLook | None  # None: not measured, or it does not tell batches apart


@dataclass(frozen=True, slots=True)
class Fed:
    """The data of a rank, by slot and in the order of steps."""

    part: RankPart
    groups: frozenset[Group]  # whose models it holds
    slots: Mapping[InputSlot, tuple[Input, ...]]


@dataclass(frozen=True, slots=True)
class Shared:
    """Two ranks had the same batches, in the same order."""

    ranks: tuple[int, int]
    part: RankPart  # of the first of these ranks
    first: Input  # of the first of these ranks
    later: int  # number of steps by which the second rank had them later; negative: earlier
    many: int  # number of batches
    of: int  # number of batches of the rank with fewer; or of an epoch
    epochs: bool = False  # both ranks have the same batches in each epoch, among them these


@dataclass(frozen=True, slots=True)
class Again:
    """A rank had the same batches again, in the same order."""

    part: RankPart
    first: Input
    every: int  # number of steps until they began again
    times: int  # how often they were complete


def fed(trace: Trace) -> tuple[Fed, ...]:
    """The data of the ranks of DistributedDataParallel; none in the trace of one process."""
    if "ranks" not in trace.meta:
        return ()
    found = []
    for part in trace.once(parts):
        groups = frozenset(group for group, _ in part.trace.once(replicated))
        if groups:
            found.append(Fed(part, groups, grouped_by_slot(part.trace)))
    return tuple(found)


def grouped_by_slot(trace: Trace) -> dict[InputSlot, tuple[Input, ...]]:
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
            if epoch := _epoch(inputs):
                times = len(inputs) // len(epoch)
                found.append(Again(each.part, inputs[0], len(epoch), times))
                break
    return tuple(found)


def origin_of(part: RankPart, passed: Input) -> Site | None:
    """The line at which data was made in its step, such as the loop over a loader, if recorded."""
    found = part.trace.once(Origins).of(passed.tensor)
    if found is None or found.by in DRAWS or found.act.step != passed.step:
        return None
    return found.site if found.site.place else None


def given_at(part: RankPart, passed: Input) -> Site:
    """The line at which data was made in its step, or the loop around the call that took it."""
    used = site_of_row(part.trace, Op, passed.op)
    return origin_of(part, passed) or loop_around(part.trace, used) or used


def data_of(trace: Trace, rank: int) -> Site | None:
    """The line at which a rank got the data of its steps, if recorded."""
    for each in trace.once(fed):
        if each.part.rank == rank:
            sites = (origin_of(each.part, inputs[-1]) for inputs in each.slots.values())
            return next((site for site in sites if site), None)
    return None


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
            slot = InputSlot(place, row.name, number)
            yield Input(row.step, slot, tensor, facts.shape, row.id, looks.get(tensor))


def _takers(trace: Trace) -> Ids:
    """The positions of calls of the forward pass that created a node and took data."""
    ops, tensors = trace.table(Op), trace.table(Tensor)
    inputs = ops.ragged("inputs")
    data = tensors["id"][(tensors["op"] == NONE) & ~tensors["requires_grad"]]
    takes = np.zeros(len(ops), bool)
    takes[inputs.owners[np.isin(inputs.values, data)]] = True
    forward = (ops["node"] != NONE) & (ops["task"] == NONE) & (ops["step"] != NONE)
    return np.flatnonzero(takes & forward)


def _looks(trace: Trace) -> dict[int, BatchLook]:
    """The statistics of tensors that tell them apart, by tensor."""
    values = trace.table(Value)
    chosen = (values["place"] == Place.LEAF) & (values["tensor"] != NONE)
    whole = _whole_numbers(trace)
    found = {}
    for row in values.take(np.flatnonzero(chosen)):
        look = BatchLook(row.count, row.zero, row.min, row.max, row.mean, row.rms)
        if not _is_plain(look) and (row.tensor not in whole or row.max - row.min >= WIDE):
            found[row.tensor] = look
    return found


def _whole_numbers(trace: Trace) -> set[int]:
    tensors = trace.table(Tensor)
    dtypes = zip(tensors["id"].tolist(), tensors.texts("dtype"), strict=True)
    return {id for id, dtype in dtypes if not dtype.startswith(("float", "bfloat", "complex"))}


def _is_plain(look: BatchLook) -> bool:
    """Whether it has at most two different values, as a mask has, or is not finite."""
    if not look.min < look.max:
        return True
    return look.min == 0 and abs(look.mean * look.many / look.max + look.zero - look.many) < 0.01


def _drawn(trace: Trace) -> set[int]:
    """Tensors with random numbers that were drawn in the step that used them, after the first."""
    acts = [act for act in trace.once(Acts).of(CameInAct) if act.facts.by in DRAWS]
    made = {tensor: act.step for act in acts for tensor in act.tensors}
    ops = trace.table(Op)
    inputs = ops.ragged("inputs")
    chosen = np.isin(inputs.values, list(made))
    steps, tensors = ops["step"][inputs.owners[chosen]], inputs.values[chosen]
    known = ops["step"][ops["step"] != NONE]
    first = int(known.min()) if len(known) else NONE
    pairs = zip(steps.tolist(), tensors.tolist(), strict=True)
    return {tensor for step, tensor in pairs if step > first and step == made[tensor]}


# -- comparison -----------------------------------------------------------------------------------


def _differ(one: Fed, slot: InputSlot) -> bool:
    """Whether several batches of a rank can be told apart by what it passed there."""
    return len({each.look for each in one.slots.get(slot, ()) if each.look}) >= FEWEST


def _shared(one: Fed, other: Fed, slot: InputSlot) -> Shared | None:
    mine, theirs = one.slots[slot], other.slots[slot]
    epoch, their_epoch = _epoch(mine), _epoch(theirs)
    if epoch and len(epoch) == len(their_epoch):
        many = len({*epoch} & {*their_epoch})
        first = next((each for each in mine if each.look in their_epoch), None)
        ranks = one.part.rank, other.part.rank
        if first is None:
            return None
        return Shared(ranks, one.part, first, 0, many, len(epoch), epochs=True)
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
                best = Shared(
                    (one.part.rank, other.part.rank), one.part, row[0], later, len(row), fewer
                )
    return best


def _epoch(inputs: Sequence[Input]) -> tuple[BatchLook, ...]:
    """The batches after which all of them come again in the same order; none if they do not.

    Single ones may not have been measured.
    """
    looks = [each.look for each in inputs]
    for every in range(SHORTEST, len(looks) // 2 + 1):
        pairs = [(a, b) for a, b in zip(looks, looks[every:], strict=False) if a and b]
        if len(pairs) >= every - 1 and all(a == b for a, b in pairs):
            known = (next(filter(None, looks[at::every]), None) for at in range(every))
            found = tuple(each for each in known if each is not None)
            if len(found) == every == len({*found}):
                return found
    return ()
