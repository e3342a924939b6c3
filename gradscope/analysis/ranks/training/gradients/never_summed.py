"""Parameters that ranks hold together, each with the gradient of its own part only.

The ranks compute one loss together: a parameter that is equal on all ranks is used with what is a
different part on each rank, so each rank gets only the part of its gradient that belongs to this.
Unless the parts are summed, the ranks' values drift apart.

Ranks that train models of their own have parameters that are equal at first, too. So two shapes are
recognized, both with parameters that are different parts on each rank from the start:

- All ranks have equal losses, and what was computed from the parameter is equal, too, until a call
  multiplies it by a part (the input of a column-parallel layer).
- The parameter is used on a part of a larger tensor, what all ranks computed from their parts is
  gathered by a collective with a backward, and is then multiplied by a part (a norm on a part of
  the sequence, before a column-parallel layer).
"""

from __future__ import annotations

from dataclasses import dataclass

from gradscope.analysis.identity.sites import Site, own_site
from gradscope.analysis.program.numbers import computed_losses
from gradscope.analysis.ranks.audit import Combining, audits
from gradscope.analysis.ranks.merging.one_rank import parts
from gradscope.analysis.ranks.training.gradients.aligned import (
    AlignedCalls,
    HeldParameter,
    RankCalls,
    held_parameters,
)
from gradscope.trace.schema import NONE, GraphTask, Storage, Tensor
from gradscope.trace.trace import Trace


@dataclass(frozen=True, slots=True)
class NeverSummed:
    """Parameters whose gradients stayed parts, and the line to look at."""

    parameters: tuple[HeldParameter, ...]
    part: HeldParameter  # with which what was computed from them was multiplied
    site: Site
    used_at: Site  # the call that uses the first parameter, or multiplies by the part
    op: int  # that call, on the first rank
    gathered: bool  # the second shape


@dataclass(frozen=True, slots=True)
class _Parted:
    part: HeldParameter
    number: int  # of the call


def never_summed(trace: Trace) -> tuple[NeverSummed, ...]:
    """One for each line and part."""
    ranks = len(trace.meta.get("ranks", ()))
    if ranks < 2:
        return ()
    held = trace.once(held_parameters)
    drifting = [each for each in held if each.drifts]
    shards = [each for each in held if each.differs]
    if not drifting or not shards:
        return ()
    own = _uncombined(trace)
    drifting = [each for each in drifting if next(iter(each.tensors.values())) in own]
    aligned = trace.once(AlignedCalls)
    if not drifting or not aligned.ranks or aligned.first is None:
        return ()
    equal, groups = _equal_losses(trace), dict[tuple[int, str, bool], NeverSummed]()
    for each in drifting:
        found = _meets_part(aligned, each, shards) if equal else None
        gathered = None if found else _is_gathered(aligned, each, shards)
        parted = found or gathered
        if parted is None:
            continue
        one = _found(aligned.first, each, parted, gathered=gathered is not None)
        key = one.op if found else NONE, one.part.name, one.gathered
        old = groups.get(key)
        groups[key] = one if old is None else _joined(old, each)
    return tuple(groups.values())


def _joined(old: NeverSummed, new: HeldParameter) -> NeverSummed:
    names = (*old.parameters, new)
    return NeverSummed(names, old.part, old.site, old.used_at, old.op, old.gathered)


def _found(first: RankCalls, of: HeldParameter, parted: _Parted, *, gathered: bool) -> NeverSummed:
    at = first.at[parted.number]
    used = own_site(first.trace, first.calls.stack(at))
    site = _backward(first) if gathered else used
    return NeverSummed((of,), parted.part, site, used, first.calls.id(at), gathered)


def _backward(first: RankCalls) -> Site:
    """The line of the last backward of the first step."""
    tasks = [
        row for row in first.trace.rows(GraphTask) if row.begin < first.until and row.parent == NONE
    ]
    last = max(tasks, key=lambda row: row.begin, default=None)
    return Site() if last is None else own_site(first.trace, last.stack)


def _uncombined(trace: Trace) -> set[int]:
    """Parameters, on the first rank, whose gradient each rank used as it had arrived."""
    return {
        each.tensor
        for audit in audits(trace)
        for each in audit.parameters
        if each.how is Combining.OWN
    }


def _equal_losses(trace: Trace) -> bool:
    """Whether all ranks began their backwards from the same numbers."""
    several = {tuple(loss for _, loss in computed_losses(part.trace)) for part in trace.once(parts)}
    return len(several) == 1 and len(several.pop()) > 1


# -- the input of a column-parallel layer ---------------------------------------------------------


def _meets_part(
    aligned: AlignedCalls, of: HeldParameter, shards: list[HeldParameter]
) -> _Parted | None:
    """The first call that is no longer equal on all ranks, if it multiplies by a part."""
    first = aligned.first
    assert first is not None
    start = of.tensors[first.rank]
    look = first.leaf(start)
    if look is None or look.min == look.max:
        return None  # all such parameters begin with the same constant
    reached, views = {start}, {start}
    for number in range(len(first.at)):
        inputs = first.inputs(number)
        if not reached.intersection(inputs):
            continue
        equal = aligned.is_equal(number)
        if equal is None:
            return None
        outputs = first.outputs(number)
        if equal:
            reached.update(outputs)
            if set(inputs) <= views:
                views.update(outputs)
            continue
        part = _part_among(first, inputs, shards)
        if part is None or not (reached - views).intersection(inputs):
            return None
        return _Parted(part, number)
    return None


def _part_among(
    first: RankCalls, tensors: list[int], shards: list[HeldParameter]
) -> HeldParameter | None:
    """The parameter of which each rank has another part, among these tensors or their bases."""
    bases = {first.calls.origin_leaf(each) for each in tensors}
    return next((each for each in shards if each.tensors[first.rank] in bases), None)


# -- a norm on a part of the sequence -------------------------------------------------------------


def _is_gathered(
    aligned: AlignedCalls, of: HeldParameter, shards: list[HeldParameter]
) -> _Parted | None:
    """The call that uses a parameter on parts that are gathered, and then multiplied by a part."""
    first = aligned.first
    assert first is not None
    start = of.tensors[first.rank]
    users = [number for number in range(len(first.at)) if start in first.inputs(number)]
    if not users or not all(_is_on_parts(aligned, number) for number in users):
        return None
    reached = {start}
    through = set[int]()
    for number in range(users[0], len(first.at)):
        inputs = first.inputs(number)
        if not (reached | through).intersection(inputs):
            continue
        part = _part_among(first, inputs, shards)
        if part is not None:
            return _Parted(part, users[0]) if through.intersection(inputs) else None
        outputs = first.outputs(number)
        if number in first.crossing or through.intersection(inputs):
            through.update(outputs)
        else:
            reached.update(outputs)
    return None


def _is_on_parts(aligned: AlignedCalls, number: int) -> bool:
    """Whether a call uses a parameter and a part of a larger tensor, another on each rank."""
    size, looks = len(aligned.ranks), set()
    for rank in aligned.ranks.values():
        data = [each for each in rank.inputs(number) if not rank.calls.needs_grad(each)]
        if len(data) != 1 or rank.calls.maker(data[0]) != NONE:
            return False
        if not _is_part(rank.trace, data[0], size):
            return False
        looks.add(rank.leaf(data[0]))
    return len(looks) == size and None not in looks


def _is_part(trace: Trace, tensor: int, size: int) -> bool:
    """Whether a tensor is one of `size` parts of its memory, not cut along the last dim."""
    tensors, storages = trace.table(Tensor), trace.table(Storage)
    if not tensors.has(tensor):
        return False
    row = tensors.row(tensor)
    if not storages.has(row.storage) or len(row.shape) < 2 or not row.bytes:
        return False
    if storages.row(row.storage).bytes != size * row.bytes:
        return False
    last = len(row.shape) - 1
    return row.strides[last] == 1 and row.strides[last - 1] == row.shape[last]
