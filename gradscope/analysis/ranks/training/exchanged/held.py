"""Ranks that pass the tensors of a dict to a collective in different orders."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gradscope.analysis.identity.sites import Site, own_site
from gradscope.analysis.ranks.collectives import GroupCalls, RankCall, grouped_calls
from gradscope.trace.schema import Collective
from gradscope.trace.trace import Trace


@dataclass(frozen=True, slots=True)
class HeldTensor:
    """A call of one rank, and where it holds the tensor that it passes."""

    call: RankCall
    held_as: str  # "totals['depth']"


@dataclass(frozen=True, slots=True)
class OtherOrder:
    """Calls of one line, whose tensors ranks passed in different orders."""

    group: GroupCalls
    number: int  # of the first call that differs, from 1
    tensors: tuple[HeldTensor, ...]  # of that call, by rank
    many: int  # how many calls differ
    site: Site


Together = tuple[HeldTensor, ...]


def other_orders(trace: Trace) -> tuple[OtherOrder, ...]:
    """Each line at which all ranks passed the same tensors of a dict, in different orders."""
    held = {row.span: row.held_as for row in trace.rows(Collective) if row.held_as}
    found: dict[Site, OtherOrder] = {}
    for group in trace.once(grouped_calls) if held else ():
        for number, several in _passes(trace, group, held):
            each = _differs(group, number, several, own_site(trace, several[0][0].call.stack))
            if each is not None:
                found.setdefault(each.site, each)
    return tuple(found.values())


def _passes(
    trace: Trace, group: GroupCalls, held: dict[int, str]
) -> Iterator[tuple[int, list[Together]]]:
    """Consecutive calls of one line with different tensors, with the number of the first."""
    first, passing, seen, line = 0, list[Together](), set[tuple[int, str]](), Site()
    for number, calls in enumerate(group.together, 1):
        those = tuple(HeldTensor(call, held.get(call.span, "")) for call in calls)
        sites = {own_site(trace, call.stack) for call in calls}
        keys = {(each.call.rank, each.held_as) for each in those}
        whole = all(each.held_as for each in those) and len(sites) == 1
        if passing and (not whole or line not in sites or keys & seen):
            yield first, passing
            passing, seen = [], set()
        if whole:
            if not passing:
                first, [line] = number, sites
            passing.append(those)
            seen |= keys
    if passing:
        yield first, passing


def _differs(
    group: GroupCalls, number: int, several: Sequence[Together], site: Site
) -> OtherOrder | None:
    other = [at for at, those in enumerate(several) if len({each.held_as for each in those}) > 1]
    by_rank: dict[int, set[str]] = {}
    for those in several:
        for each in those:
            by_rank.setdefault(each.call.rank, set()).add(each.held_as)
    same = len({frozenset(keys) for keys in by_rank.values()}) == 1
    if not other or not same:
        return None
    return OtherOrder(group, number + other[0], several[other[0]], len(other), site)
