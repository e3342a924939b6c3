"""Ranks that stopped training while others of their group waited for their gradients."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gradscope.analysis.identity.sites import Site, own_site
from gradscope.analysis.lookups import grouped
from gradscope.analysis.ranks.collectives import RankCall, grouped_calls
from gradscope.analysis.ranks.merging.one_rank import RankPart, parts
from gradscope.analysis.ranks.replicas import Group, replicated
from gradscope.analysis.ranks.training.branches import (
    EarlyEnd,
    ending_early,
    is_after_the_loops,
    loop_around,
)
from gradscope.analysis.ranks.training.data.loaders import Loading
from gradscope.analysis.ranks.training.parting import lines_of
from gradscope.analysis.ranks.whose import OK, endings
from gradscope.trace.schema import NONE, Accumulate, GraphTask
from gradscope.trace.trace import Trace

LEFT_ALONE = re.compile(r"closed by peer|reset by peer|timed? ?out|watchdog", re.IGNORECASE)
"""Errors of a collective in which another rank never came."""


@dataclass(frozen=True, slots=True)
class StoppedRanks:
    """Ranks that went on, or ended without an error, while others waited for their gradients."""

    ranks: tuple[int, ...]
    backwards: int  # that ended on each of them, at most
    loop: Site | None  # around the last of them
    between_passes: bool  # whether they left it between two passes over the batches
    exit: EarlyEnd | None  # the only branch that leaves the loop, or a round of it
    then: RankCall | None  # what the first of them called after it
    waiting: tuple[int, ...]
    many: int  # backwards of the first waiting rank that ended
    task: int  # the backward in which it waited; or the last one, if it waited after that
    inside: bool  # whether it waited in that backward


@dataclass(frozen=True, slots=True)
class _Ran:
    """The backwards of one rank that reached a model."""

    part: RankPart
    ended: tuple[int, ...]
    cut_off: int  # the last one, if it did not end, or failed because of another rank; or NONE
    ending: str


def stopped(trace: Trace) -> tuple[StoppedRanks, ...]:
    """One for each model of DistributedDataParallel; none in the trace of one process."""
    if "ranks" not in trace.meta:
        return ()
    ended = endings(trace)
    every = [
        ((group, model), _ran(part, parameters, ended.get(part.rank, "")))
        for part in trace.once(parts)
        for model, (group, parameters) in enumerate(part.trace.once(replicated))
    ]
    models: dict[tuple[Group, int], list[tuple[tuple[Group, int], _Ran]]]
    models = grouped(every, lambda pair: pair[0])
    found = (_stopped(trace, [ran for _, ran in several]) for several in models.values())
    return tuple(each for each in found if each is not None)


def _ran(part: RankPart, parameters: tuple[int, ...], ending: str) -> _Ran:
    events, held = part.trace.table(Accumulate), {*parameters}
    pairs = zip(events["task"].tolist(), events["tensor"].tolist(), strict=True)
    reached = {task for task, tensor in pairs if tensor in held}
    rows = sorted(
        (row for row in part.trace.rows(GraphTask) if row.parent == NONE),
        key=lambda row: (row.begin, row.id),
    )
    ended = tuple(row.id for row in rows if row.id in reached and row.end != NONE and not row.error)
    last = rows[-1] if rows else None
    cut_off = last and (last.end == NONE or LEFT_ALONE.search(last.error))
    return _Ran(part, ended, last.id if last and cut_off else NONE, ending)


def _stopped(trace: Trace, ranks: list[_Ran]) -> StoppedRanks | None:
    if any(each.ending not in ("", OK) and not LEFT_ALONE.search(each.ending) for each in ranks):
        return None  # an exception of the program
    waiting = [each for each in ranks if each.cut_off != NONE]
    left = [each for each in ranks if each.cut_off == NONE]
    if not waiting:  # before a forward, ranks exchange the buffers of a model
        waiting = [each for each in ranks if LEFT_ALONE.search(each.ending)]
        left = [each for each in ranks if each.ending == OK]
    many = max((len(each.ended) for each in left), default=0)
    if not waiting or not many or any(len(each.ended) != many for each in waiting):
        return None  # or else some of what they did is not recorded
    first, gone = waiting[0], left[0]
    tasks = gone.part.trace.table(GraphTask)
    last = tasks.row(gone.ended[-1])
    own = gone.part.trace
    called, then = own_site(own, last.stack), _then(trace, gone.part.rank, last.end)
    if then and not is_after_the_loops(own, own_site(trace, then.stack), called):
        return None  # it may wait for a collective that others do not call in their loop
    outer = _around_passes(own, first.part.trace, last.stack)
    inside = outer or called
    return StoppedRanks(
        tuple(each.part.rank for each in left),
        many,
        loop_around(own, inside),
        outer is not None,
        ending_early(own, inside),
        then,
        tuple(each.part.rank for each in waiting),
        len(first.ended),
        first.ended[-1] if first.cut_off == NONE else first.cut_off,
        first.cut_off != NONE,
    )


def _around_passes(own: Trace, waiting: Trace, stack: int) -> Site | None:
    """The line in the loop around passes over the batches, if a rank left that one.

    It did if a rank that waits has begun more passes. `stack`: of the last backward.
    """
    called = own_site(own, stack)
    loop = loop_around(own, called)
    if loop is None or _passes(waiting, loop) <= _passes(own, loop):
        return None
    lines = [loop, *(each for each in lines_of(own, stack) if each.place != called.place)]
    return next((each for each in lines if loop_around(own, each) not in (None, loop)), None)


def _passes(trace: Trace, loop: Site) -> int:
    return sum(each.site.place == loop.place for each in trace.once(Loading).passes)


def _then(trace: Trace, rank: int, since: int) -> RankCall | None:
    """The last collective that a rank called after this time."""
    calls = [call for group in trace.once(grouped_calls) for call in group.calls.get(rank, ())]
    return max((e for e in calls if e.begin >= since), key=lambda call: call.begin, default=None)
