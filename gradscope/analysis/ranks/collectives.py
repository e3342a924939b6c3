"""Collectives of a merged trace, aligned across ranks: by their group, and their order in it.

All ranks of a group must call the same collectives in the same order. So the first call of each
rank in a group belongs together, the second one, and so on, until the ranks differ.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import zip_longest
from math import prod

import numpy as np

from gradscope.analysis.ranks.clocks import GOES_ON, is_met
from gradscope.analysis.ranks.whose import RankOf
from gradscope.trace.schema import NONE, Collective, Phase, ProcessGroup, Span
from gradscope.trace.trace import Trace

SAME_SIZE = frozenset(("all_reduce", "broadcast", "reduce"))
"""Collectives whose tensors have the same number of elements and the same dtype on all ranks."""

SAME_SIZE_MOSTLY = frozenset(("all_gather", "all_gather_into_tensor"))
"""Likewise, but some backends take other sizes: one that did not end may not have."""


@dataclass(frozen=True, slots=True)
class RankCall:
    """One rank's call of a collective."""

    rank: int
    span: int
    name: str  # "all_reduce"
    asynchronous: bool
    stack: int
    step: int
    begin: int
    end: int  # NONE: it did not end
    shape: tuple[int, ...] = ()
    dtype: str = ""  # "": it passes no tensor

    def fits(self, other: RankCall) -> bool:
        """Whether two ranks may call these together."""
        if self.name != other.name:
            return False
        stuck = self.name in SAME_SIZE_MOSTLY and NONE in (self.end, other.end)
        if not (stuck or self.name in SAME_SIZE) or "" in (self.dtype, other.dtype):
            return True
        return (prod(self.shape), self.dtype) == (prod(other.shape), other.dtype)


@dataclass(frozen=True, slots=True)
class GroupCalls:
    """The calls of one group, by rank. Only ranks with a trace are included."""

    described: str  # "default_pg"
    members: tuple[int, ...]  # all ranks of the group
    calls: dict[int, list[RankCall]]
    together: list[tuple[RankCall, ...]]  # calls that belong together, until ranks differ
    parted: dict[int, RankCall | None]  # the first that differ; None: no further call. Or empty


def _aligned(group: ProcessGroup, calls: dict[int, list[RankCall]]) -> GroupCalls:
    found = GroupCalls(group.described, group.members, calls, [], {})
    for several in zip_longest(*calls.values()):
        made = tuple(call for call in several if call is not None)
        if len(made) < len(calls) or not all(call.fits(made[0]) for call in made):
            found.parted.update(zip(calls, several, strict=True))
            break
        found.together.append(made)
    return found


def grouped_calls(trace: Trace) -> tuple[GroupCalls, ...]:
    """The collectives of each group with several ranks; none in the trace of one process."""
    ranks = trace.once(RankOf)
    table = trace.table(Span)
    chosen = np.flatnonzero(table["phase"] == Phase.COLLECTIVE)
    spans = (row for row in table.take(chosen) if is_met(row.name))
    rows = sorted(spans, key=lambda row: row.begin)
    if not rows or not ranks.numbers:
        return ()
    owners = ranks.of(Span.TABLE, np.array([row.id for row in rows], np.int64)).tolist()
    exchanged = {row.span: row for row in trace.rows(Collective)}
    groups = {row.id: row for row in trace.rows(ProcessGroup)}
    every = ProcessGroup(NONE, members=ranks.numbers)  # of traces that do not have groups
    found: dict[tuple[str, tuple[int, ...]], tuple[ProcessGroup, dict[int, list[RankCall]]]] = {}
    for rank, row in zip(owners, rows, strict=True):
        passed = exchanged.get(row.id)
        group = every if passed is None else groups.get(passed.group)
        if group is None or rank not in group.members:
            continue
        key = group.name, group.members
        if key not in found:
            found[key] = group, {each: [] for each in ranks.numbers if each in group.members}
        found[key][1][rank].append(_call(rank, row, passed))
    return tuple(_aligned(group, calls) for group, calls in found.values() if len(calls) > 1)


def _call(rank: int, row: Span, passed: Collective | None) -> RankCall:
    name = row.name.removesuffix(GOES_ON)
    passed = passed or Collective()
    return RankCall(
        rank, row.id, name, name != row.name, passed.stack, row.step, row.begin, row.end,
        passed.shape, passed.dtype,
    )  # fmt: skip
