"""Collectives of a merged trace, aligned across ranks: by their group, and their order in it.

All ranks of a group must call the same collectives in the same order. So the first call of each
rank in a group belongs together, the second one, and so on, until the ranks differ.

Those that DistributedDataParallel calls in backwards are aligned apart from others: they begin on
threads of their own, so their order among others is not known. So are calls that make groups.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import zip_longest
from math import prod

import numpy as np

from gradscope.analysis.identity.sites import Site, own_site
from gradscope.analysis.ranks.whose import RankOf
from gradscope.trace.schema import NONE, Collective, GraphTask, Phase, ProcessGroup, Span
from gradscope.trace.schema.sharding import GOES_ON
from gradscope.trace.trace import Trace

REDUCES, MAKES = "DistributedDataParallel", "makes groups"
MAKE_GROUPS = frozenset(
    ("new_group", "new_subgroups", "new_subgroups_by_enumeration", "split_group")
)
"""Calls that make groups. Often only the ranks of the new group wait for each other in them."""

ONE_TO_ONE = ("send", "recv", "batch_isend_irecv")
"""What two ranks do with each other, and the others of their group do not call."""
BEGINS_FUNCTIONAL = "functional "
"""Beginning of the names of collectives that DTensor calls, possibly in other orders."""
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
    bucket: int = NONE  # of DistributedDataParallel
    makes: tuple[int, ...] = ()  # the ranks of the group that it makes
    finishes: bool = False  # it reduces the last bucket of a backward, which then waits for it

    def fits(self, other: RankCall) -> bool:
        """Whether two ranks may call these together."""
        if {self.name, other.name} <= MAKE_GROUPS:
            return True  # what they make may differ, and then works or not
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
    kind: str  # REDUCES, MAKES or ""
    members: tuple[int, ...]  # all ranks of the group
    calls: dict[int, list[RankCall]]
    together: list[tuple[RankCall, ...]]  # calls that belong together, until ranks differ
    parted: dict[int, RankCall | None]  # the first that differ; None: no further call. Or empty

    @property
    def reduces(self) -> bool:
        """Whether DistributedDataParallel calls these in backwards."""
        return self.kind == REDUCES


def _aligned(group: ProcessGroup, calls: dict[int, list[RankCall]], kind: str) -> GroupCalls:
    if kind == REDUCES:
        calls = {rank: _finishing(made) for rank, made in calls.items()}
    found = GroupCalls(group.described, kind, group.members, calls, [], {})
    for several in zip_longest(*calls.values()):
        made = tuple(call for call in several if call is not None)
        if len(made) < len(calls) or not all(call.fits(made[0]) for call in made):
            found.parted.update(zip(calls, several, strict=True))
            break
        found.together.append(made)
    return found


def is_met(name: str) -> bool:
    """Whether all ranks call what has this name in the same order."""
    return name.removesuffix(GOES_ON) not in ONE_TO_ONE and not name.startswith(BEGINS_FUNCTIONAL)


def grouped_calls(trace: Trace) -> tuple[GroupCalls, ...]:
    """The collectives of each group with several ranks; none in the trace of one process."""
    ranks, spans = trace.once(RankOf), _met(trace)
    owners = ranks.of(Span.TABLE, np.array([row.id for row in spans], np.int64)).tolist()
    of_ranks: dict[int, list[Span]] = {number: [] for number in ranks.numbers}
    for rank, row in zip(owners, spans, strict=True):
        of_ranks.setdefault(rank, []).append(row)
    return _grouped({rank: (trace, of_ranks[rank]) for rank in ranks.numbers})


def last_reduction(trace: Trace, rank: int, until: int) -> Site | None:
    """The line of the last reduction that a rank called before a time."""
    calls = [
        call
        for group in trace.once(grouped_calls)
        for call in group.calls.get(rank, ())
        if "reduce" in call.name and call.begin < until
    ]
    last = max(calls, key=lambda call: call.begin, default=None)
    return own_site(trace, last.stack) if last else None


def calls_of(traces: Mapping[int, Trace]) -> tuple[GroupCalls, ...]:
    """The same for traces of ranks that are not merged: ids and times are those of each trace."""
    return _grouped({rank: (trace, _met(trace)) for rank, trace in traces.items()})


def _met(trace: Trace) -> list[Span]:
    """The collectives that all ranks of a group call, in the order in which they began."""
    table = trace.table(Span)
    chosen = np.flatnonzero(table["phase"] == Phase.COLLECTIVE)
    spans = (row for row in table.take(chosen) if is_met(row.name))
    return sorted(spans, key=lambda row: row.begin)


def _grouped(of_ranks: Mapping[int, tuple[Trace, list[Span]]]) -> tuple[GroupCalls, ...]:
    every = ProcessGroup(NONE, members=(*of_ranks,))  # of traces that do not have groups
    found: dict[
        tuple[str, tuple[int, ...], str], tuple[ProcessGroup, dict[int, list[RankCall]]]
    ] = {}
    for rank, (trace, spans) in of_ranks.items():
        exchanged, groups = trace.once(_exchanged), trace.once(_groups)
        lines = trace.once(_Backwards)
        own: dict[tuple[int | None, str], list[RankCall] | None] = {}  # by group, and kind
        for row in spans:
            passed = exchanged.get(row.id)
            number, kind = None if passed is None else passed.group, _kind(row, passed)
            if (number, kind) not in own:
                group = every if number is None else groups.get(number)
                own[number, kind] = None
                if group is not None and rank in group.members:
                    key = group.name, group.members, kind
                    if key not in found:
                        members = {*group.members}
                        found[key] = group, {each: [] for each in of_ranks if each in members}
                    own[number, kind] = found[key][1][rank]
            calls = own[number, kind]
            if calls is not None:
                calls.append(_call(rank, row, passed or Collective(), lines, kind))
    return tuple(
        _aligned(group, calls, key[2]) for key, (group, calls) in found.items() if len(calls) > 1
    )


def _exchanged(trace: Trace) -> dict[int, Collective]:
    return {row.span: row for row in trace.rows(Collective)}


def _groups(trace: Trace) -> dict[int, ProcessGroup]:
    return {row.id: row for row in trace.rows(ProcessGroup)}


def _kind(row: Span, passed: Collective | None) -> str:
    """How a call is aligned: REDUCES, MAKES, or "" as most are."""
    if passed is not None and passed.caller == REDUCES and row.name.endswith(GOES_ON):
        return REDUCES
    return MAKES if row.name in MAKE_GROUPS else ""


def _call(rank: int, row: Span, passed: Collective, lines: _Backwards, kind: str) -> RankCall:
    reduces = kind == REDUCES
    name = row.name.removesuffix(GOES_ON)
    stack = lines.at(rank, row.begin) if passed.stack == NONE and reduces else passed.stack
    shape, dtype = ((), "") if reduces else (passed.shape, passed.dtype)  # buckets may be swapped
    return RankCall(
        rank, row.id, name, name != row.name, stack, row.step, row.begin, row.end,
        shape, dtype, passed.bucket, passed.makes,
    )  # fmt: skip


def _finishing(calls: list[RankCall]) -> list[RankCall]:
    """The calls, with those marked that reduce the last bucket of a backward."""
    return [
        replace(call, finishes=call.bucket != NONE and (after is None or after.bucket == 0))
        for call, after in zip_longest(calls, calls[1:])
    ]


class _Backwards:
    """The lines of the outermost backwards of each rank."""

    def __init__(self, trace: Trace) -> None:
        table, ranks = trace.table(GraphTask), trace.once(RankOf)
        outer = np.flatnonzero(table.array("parent") == NONE)
        owners = ranks.of(GraphTask.TABLE, table.array("id")[outer])
        begin, stack = table.array("begin")[outer], table.array("stack")[outer]
        self._of = {}
        for rank in ranks.numbers or (trace.meta.get("rank", 0),):
            own = (owners == rank) | (not ranks.numbers)
            order = np.argsort(begin[own], kind="stable")
            self._of[rank] = begin[own][order], stack[own][order]

    def at(self, rank: int, t: int) -> int:
        """The stack of the last backward that a rank had begun at this time; NONE: none."""
        begin, stack = self._of[rank]
        at = int(np.searchsorted(begin, t, side="right")) - 1
        return NONE if at < 0 else int(stack[at])
