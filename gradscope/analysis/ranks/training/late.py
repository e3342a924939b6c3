"""The rank that others wait for again and again, because of a line that only this rank runs.

A collective ends when the last rank has entered it. What that rank did since the last collective of
the group is looked at: the line in or after which most of the time passed. It is named if this is
the same line each time, and no other rank ever runs it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from gradscope.analysis.identity.sites import Site, is_installed, own_site, site_at
from gradscope.analysis.program.acts import Acts
from gradscope.analysis.ranks.collectives import GroupCalls, RankCall, grouped_calls
from gradscope.analysis.ranks.merging.one_rank import parts
from gradscope.analysis.ranks.training.branches import Line
from gradscope.analysis.ranks.training.parting import parted_at
from gradscope.analysis.ranks.training.slow import slow_ranks
from gradscope.analysis.timing.by_line import ProgramCalls
from gradscope.trace.arrays import distinct
from gradscope.trace.ragged import Integers
from gradscope.trace.schema import NONE, Act, Collective, GraphTask, Node, Op, StateTakenAct
from gradscope.trace.trace import Trace

LONG_NS = 200_000_000
"""Shorter waits are not looked at: a busy machine delays a process as long."""

FEWEST = 2
"""Least number of such waits at one line."""

OFTEN = 0.6
"""Least part of them for which one rank, and one line, is the reason."""

LARGE = 0.2
"""Least part of the time, from the first collective to the last, for which others wait."""

STACKED = (Op, Node, Act, GraphTask, Collective)


@dataclass(frozen=True, slots=True)
class LateRank:
    """A rank that came last to the same collective several times, and what it did before."""

    rank: int
    waiting: tuple[int, ...]
    call: RankCall  # the first of the late calls
    called_at: Site
    kind: str  # of its group: REDUCES in a backward
    many: int  # number of calls at this line
    late: int  # number of those that others waited for
    waited: int  # ns, of the rank that waited longest for each
    share: float  # of the time from the first collective to the last one
    site: Site  # the line that only this rank runs
    branch: Site | None


@dataclass(frozen=True, slots=True)
class _Wait:
    """What the last rank of a collective did before others stopped waiting for it."""

    call: RankCall
    first: RankCall  # of those that waited, the one that waited longest
    waiting: tuple[int, ...]
    ns: int
    lines: tuple[Line, ...]  # where most of the time passed, from the inside out; empty: nowhere
    stack: int


def late_ranks(trace: Trace) -> tuple[LateRank, ...]:
    """One for each line; none if ranks ran on several machines, whose clocks differ."""
    ranks = trace.meta.get("ranks", ())
    if len(ranks) < FEWEST or len({each.get("host") for each in ranks}) != 1:
        return ()
    of_ranks = {part.rank: part.trace for part in trace.once(parts)}
    spent = {rank: _Spent(each) for rank, each in of_ranks.items()}
    known = {each.rank for each in trace.once(slow_ranks)}
    groups = trace.once(grouped_calls)
    begins = [call.begin for group in groups for calls in group.together for call in calls]
    whole = max(begins, default=0) - min(begins, default=0)
    found = (_late(group, whole, of_ranks, spent) for group in groups)
    return tuple(each for several in found for each in several if each.rank not in known)


class _Ordered(NamedTuple):
    """The calls of a rank in the order in which they began."""

    calls: ProgramCalls
    begin: Integers
    own: Integers  # ns in each
    gaps: Integers  # ns before each
    keys: Integers
    ended: Integers  # the key of the call that ended before


class _Spent:
    """Where a rank spent its time between calls, and the lines that it ran."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace

    @cached_property
    def _ordered(self) -> _Ordered:
        calls = ProgramCalls(self._trace)
        order = np.argsort(calls.begin, kind="stable")
        gaps, after = calls.gaps_after()
        ended = np.where(after == NONE, NONE, calls.key[after])
        own = np.where(calls.is_collective, 0, calls.own_times())
        columns = calls.begin, own, gaps, calls.key, ended
        return _Ordered(calls, *(column[order] for column in columns))

    def _saves(self, place: str) -> bool:
        """Whether the rank took the state of a module or an optimizer at this line."""
        acts = self._trace.once(Acts)
        return any(acts.site(act).place == place for act in acts.of(StateTakenAct))

    @cached_property
    def lines(self) -> set[Line]:
        """All lines that the rank ran."""
        stacks = np.concatenate([self._trace.table(kind)["stack"] for kind in STACKED])
        return {line for stack in distinct(stacks).tolist() for line in self._lines(stack)}

    def most(self, since: int, until: int, least: int) -> tuple[tuple[Line, ...], int]:
        """The line in or after which most of this time passed, if at least so long, and a stack."""
        its = self._ordered
        rows = slice(*np.searchsorted(its.begin, (since, until), side="right").tolist())
        spent: dict[str, int] = {}
        stacks: dict[str, int] = {}
        for keys, ns in (
            (its.keys[rows], its.own[rows]),
            (its.ended[rows], its.gaps[rows]),
        ):
            for key, each in zip(keys.tolist(), ns.tolist(), strict=True):
                place = its.calls.site(key).place
                spent[place] = spent.get(place, 0) + each
                stacks[place] = key
        place = max(spent, key=lambda each: spent[each], default="")
        if not place or spent[place] < least or stacks[place] < 0 or self._saves(place):
            return (), NONE
        return self._lines(stacks[place]), stacks[place]

    def _lines(self, stack: int) -> tuple[Line, ...]:
        frames = self._trace.frames(stack) if stack >= 0 else ()
        return tuple((each.file, each.line) for each in frames if not is_installed(each.file))


def _late(
    group: GroupCalls, whole: int, traces: Mapping[int, Trace], spent: Mapping[int, _Spent]
) -> Iterator[LateRank]:
    many: Counter[str] = Counter()
    waits: dict[str, list[_Wait]] = {}
    before = dict.fromkeys(group.calls, 0)
    for calls in group.together:
        last = max(calls, key=lambda call: call.begin)
        place = f"{last.name} {own_site(traces[last.rank], last.stack).place}"
        many[place] += 1
        wait = _waited(group, calls, last, before[last.rank], spent[last.rank])
        if wait is not None:
            waits.setdefault(place, []).append(wait)
        before = {call.rank: max(call.begin, call.end) for call in calls}
    for place, several in waits.items():
        found = _common(group, several, whole, traces, spent)
        if found is not None:
            yield replace(found, many=many[place])


def _waited(
    group: GroupCalls, calls: Sequence[RankCall], last: RankCall, since: int, spent: _Spent
) -> _Wait | None:
    """How long others waited for the last of these calls, if it was long."""
    waiting = [
        call
        for call in calls
        if (call.finishes if group.reduces else not call.asynchronous)
        and (call.end == NONE or call.end >= last.begin)
        and call.begin + LONG_NS <= last.begin
    ]
    if not waiting:
        return None
    first = min(waiting, key=lambda call: call.begin)
    ns = last.begin - first.begin
    lines, stack = spent.most(since, last.begin, ns // 2)
    return _Wait(last, first, tuple(call.rank for call in waiting), ns, lines, stack)


def _common(
    group: GroupCalls,
    waits: Sequence[_Wait],
    whole: int,
    traces: Mapping[int, Trace],
    spent: Mapping[int, _Spent],
) -> LateRank | None:
    """The rank that most of these waits are for, if a line that only it runs is the reason."""
    [(rank, most)] = Counter(wait.call.rank for wait in waits).most_common(1)
    least = max(FEWEST, OFTEN * len(waits))
    if most < least:
        return None
    others = set[Line]().union(*(each.lines for at, each in spent.items() if at != rank))
    reasons = Counter(
        line
        for wait in waits
        if wait.call.rank == rank
        for line in dict.fromkeys(wait.lines)
        if line not in others
    )
    outside_in = reversed(reasons.items())  # of lines that call each other, where ranks part
    line, often = max(outside_in, key=lambda each: each[1], default=(("", 0), 0))
    own = [wait for wait in waits if wait.call.rank == rank and line in wait.lines]
    waited = sum(wait.ns for wait in own)
    if often < least or waited < LARGE * whole:
        return None
    first, trace = own[0], traces[rank]
    text = next(each.text for each in trace.frames(first.stack) if (each.file, each.line) == line)
    return LateRank(
        rank,
        first.waiting,
        first.call,
        own_site(trace, first.call.stack),
        group.kind,
        len(own),
        len(own),
        waited,
        waited / whole,
        site_at(trace, *line, text.strip()),
        parted_at(trace, first.stack, first.call.stack),
    )
