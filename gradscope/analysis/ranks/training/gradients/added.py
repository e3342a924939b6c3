"""What each rank adds to its part of a sum over ranks, although it is equal on all of them.

A row-parallel layer multiplies a part of its input by a part of its weight, and sums the results
over ranks. If each rank adds the whole bias to its part, the sum has the bias once for each rank.
The statistics of what a collective summed show which call computed it. If what was summed is
divided by the number of ranks later, it is an average, and nothing is wrong.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator
from dataclasses import dataclass

from gradscope.analysis.identity.sites import Site, own_site
from gradscope.analysis.program.calls import SAME_NUMBERS
from gradscope.analysis.ranks.training.data.batches import BatchLook
from gradscope.analysis.ranks.training.gradients.aligned import (
    AlignedCalls,
    Exchanged,
    HeldParameter,
    RankCalls,
    held_parameters,
)
from gradscope.analysis.source.files import SourceFiles
from gradscope.analysis.source.functions import last_name
from gradscope.trace.schema import NONE, Tensor
from gradscope.trace.trace import Trace

ADDS = frozenset(("add", "addmm", "linear", "convolution"))
"""Calls that add a parameter to what they compute."""

PRODUCTS = frozenset(("mm", "matmul", "bmm", "einsum"))
"""Calls whose result a sum over ranks completes, if one of their factors is a part."""

CLOSE = 1e-3
FARTHEST = 8
"""Number of calls before a collective among which is the one that computed what it sums."""


@dataclass(frozen=True, slots=True)
class AddedOnEachRank:
    """A parameter that a sum over ranks has once for each rank."""

    parameter: HeldParameter
    part: HeldParameter  # which the same call uses, and each rank has another part of
    site: Site  # the call that adds it
    summed_at: Site
    op: int
    span: int
    size: int  # number of ranks


@dataclass(frozen=True, slots=True)
class ScalesAttribute:
    """A division or product in the source, of something with this name."""

    line: int
    name: str


def added_on_each_rank(trace: Trace) -> tuple[AddedOnEachRank, ...]:
    """All of them, each once."""
    if len(trace.meta.get("ranks", ())) < 2:
        return ()
    held = trace.once(held_parameters)
    equal = [each for each in held if len(each.equal) > 1 and all(each.equal)]
    shards = [each for each in held if not any(each.equal)]
    aligned = trace.once(AlignedCalls) if equal and shards else None
    if aligned is None or not aligned.ranks:
        return ()
    scaled = {each.found.name for each in trace.once(SourceFiles).each(scaled_attributes)}
    equal = [each for each in equal if each.name.rpartition(".")[2] not in scaled]
    found = dict[tuple[str, Site], AddedOnEachRank]()
    for each in _found(aligned, equal, shards):
        found.setdefault((each.parameter.name, each.site), each)
    return tuple(found.values())


def _found(
    aligned: AlignedCalls, equal: list[HeldParameter], shards: list[HeldParameter]
) -> Iterator[AddedOnEachRank]:
    ranks = aligned.ranks
    if len({len(each.exchanged) for each in ranks.values()}) != 1:
        return
    first = next(iter(ranks.values()))
    for place, one in enumerate(first.exchanged):
        together = {rank: each.exchanged[place] for rank, each in ranks.items()}
        if not _is_sum(together, tuple(ranks)):
            continue
        numbers = {_computed(ranks[rank], each) for rank, each in together.items()}
        number = numbers.pop() if len(numbers) == 1 else None
        if number is None or first.calls.name(first.at[number]) not in ADDS:
            continue
        added = [each for each in equal if each.tensors[first.rank] in first.inputs(number)]
        part = _part_in(first, number, shards) if added else None
        if part is None or not _is_added(first, added[0]):
            continue
        if any(_is_averaged(ranks[rank], each, len(ranks)) for rank, each in together.items()):
            continue
        at = first.at[number]
        yield AddedOnEachRank(
            added[0], part, own_site(first.trace, first.calls.stack(at)),
            own_site(first.trace, one.stack), first.calls.id(at), one.span, len(ranks),
        )  # fmt: skip


def _part_in(first: RankCalls, number: int, shards: list[HeldParameter]) -> HeldParameter | None:
    """The part of a weight that a call uses, or the product to which it adds something."""
    pending, seen = [first.at[number]], set[int]()
    while pending and len(seen) < FARTHEST:
        at = pending.pop(0)
        seen.add(at)
        inputs = first.calls.inputs(at)
        bases = {first.calls.origin_leaf(each) for each in inputs}
        part = next((each for each in shards if each.tensors[first.rank] in bases), None)
        if part is not None:
            return part
        made = [first.calls.origin(each) for each in inputs]
        pending += [
            each
            for each in made
            if each != NONE and each not in seen and first.calls.name(each) in (*ADDS, *PRODUCTS)
        ]
    return None


def _is_sum(together: dict[int, Exchanged], ranks: tuple[int, ...]) -> bool:
    """Whether these calls summed what ranks passed, over all of them."""
    every = list(together.values())
    if any(each.name.partition(",")[0] != "all_reduce" for each in every):
        return False
    if any(len(each.sums) != 2 or set(each.members) != set(ranks) for each in every):
        return False
    total, norm = sum(each.sums[0] for each in every), max(each.norms[1] for each in every)
    room = CLOSE * norm * math.sqrt(max(math.prod(every[0].shape), 1))
    shows = max(abs(each.sums[0] - total) for each in every) > 2 * room
    return shows and all(abs(each.sums[1] - total) <= room for each in every)


def _computed(rank: RankCalls, summed: Exchanged) -> int | None:
    """The number of the call that computed what a collective summed, before views and copies."""
    before = [number for number, t in enumerate(rank.begin) if t < summed.begin]
    for number in reversed(before[-FARTHEST:]):
        looks = rank.results(number)
        if len(looks) == 1 and _is_like(looks[0], summed, summed.sums[0], summed.norms[0]):
            made = rank.calls.origin(rank.outputs(number)[0], SAME_NUMBERS)
            return rank.number.get(made)
    return None


def _is_like(look: BatchLook, summed: Exchanged, total: float, norm: float) -> bool:
    """Whether a tensor has this sum and norm."""
    many = math.prod(summed.shape)
    if look.many != many or math.isnan(look.mean) or not many:
        return False
    own = look.rms * math.sqrt(many)
    room = CLOSE * norm * math.sqrt(many) / 10
    return abs(own - norm) <= CLOSE * norm / 10 and abs(look.mean * many - total) <= room


def _is_added(first: RankCalls, parameter: HeldParameter) -> bool:
    """Whether it is a vector that is not zero in some step: to add it makes a difference."""
    if parameter.is_zero:
        return False
    return len(first.trace.table(Tensor).row(parameter.tensors[first.rank]).shape) == 1


def _is_averaged(rank: RankCalls, summed: Exchanged, size: int) -> bool:
    """Whether the sum was divided by the number of ranks: measured so, or its gradient was."""
    total, norm = summed.sums[1] / size, summed.norms[1] / size
    if any(_is_like(look, summed, total, norm) for look in rank.looks_after(summed.begin)):
        return True
    within = [number for number, t in enumerate(rank.begin) if t < summed.begin][-1:]
    return any(
        abs(out * size - into) <= CLOSE * into
        for number in within
        for into, out in [rank.passed_back(number)]
    )


def scaled_attributes(tree: ast.Module) -> Iterator[ScalesAttribute]:
    """Names of what is divided or multiplied: a bias may be divided by the number of ranks."""
    for each in ast.walk(tree):
        if isinstance(each, ast.BinOp) and isinstance(each.op, ast.Div | ast.Mult):
            sides = (each.left, each.right)
        elif isinstance(each, ast.AugAssign) and isinstance(each.op, ast.Div | ast.Mult):
            sides = (each.target, each.value)
        else:
            continue
        for side in sides:
            for inner in ast.walk(side):
                if name := last_name(inner):
                    yield ScalesAttribute(each.lineno, name)
