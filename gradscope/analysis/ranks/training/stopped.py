"""Ranks that stopped training while others of their group waited for their gradients."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from gradscope.analysis.lookups import grouped
from gradscope.analysis.ranks.one_rank import RankPart, parts
from gradscope.analysis.ranks.replicas import Group, replicated
from gradscope.analysis.ranks.whose import endings
from gradscope.trace.schema import NONE, Accumulate, GraphTask
from gradscope.trace.trace import Trace

OK = "ok"
LEFT_ALONE = re.compile(r"closed by peer|reset by peer|timed? ?out|watchdog", re.IGNORECASE)
"""Errors of a collective in which another rank never came."""


@dataclass(frozen=True, slots=True)
class Stopped:
    """Ranks that ended without an error, after fewer backwards than others began."""

    ranks: tuple[int, ...]
    backwards: int  # that ended on each of them, at most
    waiting: tuple[int, ...]
    many: int  # backwards of the first waiting rank that ended
    task: int  # the backward in which it waited; or the last one, if it waited after that
    inside: bool  # whether it waited in that backward


@dataclass(frozen=True, slots=True)
class _Ran:
    """The backwards of one rank that reached a model."""

    rank: int
    ended: tuple[int, ...]
    cut_off: int  # the last one, if it did not end, or failed because of another rank; or NONE
    ending: str


def stopped(trace: Trace) -> tuple[Stopped, ...]:
    """One for each model of DistributedDataParallel; none in the trace of one process."""
    if "ranks" not in trace.meta:
        return ()
    ended = endings(trace)
    every = [
        ((group, model), _ran(part, parameters, ended.get(part.rank, "")))
        for part in trace.once(parts)
        for model, (group, parameters) in enumerate(replicated(part.trace))
    ]
    models: dict[tuple[Group, int], list[tuple[tuple[Group, int], _Ran]]]
    models = grouped(every, lambda pair: pair[0])
    return tuple(
        found for several in models.values() for found in _stopped([ran for _, ran in several])
    )


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
    return _Ran(part.rank, ended, last.id if last and cut_off else NONE, ending)


def _stopped(ranks: list[_Ran]) -> Iterator[Stopped]:
    left = [each for each in ranks if each.ending == OK]
    waiting = [
        each
        for each in ranks
        if each.ending != OK and (each.cut_off != NONE or LEFT_ALONE.search(each.ending))
    ]
    if not left or not waiting:
        return
    many = max(len(each.ended) for each in left)
    first = waiting[0]
    if not many or any(len(each.ended) < many for each in waiting):
        return
    yield Stopped(
        tuple(each.rank for each in left),
        many,
        tuple(each.rank for each in waiting),
        len(first.ended),
        first.ended[-1] if first.cut_off == NONE else first.cut_off,
        first.cut_off != NONE,
    )
