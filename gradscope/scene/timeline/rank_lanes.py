"""One step of several ranks: a lane for each rank, on one axis of time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gradscope.analysis.identity.steps import step_ids
from gradscope.analysis.lookups import Ids
from gradscope.analysis.ranks.collectives import grouped_calls
from gradscope.analysis.ranks.waits import RankWait, rank_waits
from gradscope.analysis.ranks.whose import RankOf
from gradscope.scene.kinds import NodeKind, kind_of_call
from gradscope.scene.readable import count, duration
from gradscope.scene.timeline.lanes import Bar, LaneKind, TimeLane
from gradscope.trace.schema import NONE, GraphTask, Op, Phase, Span
from gradscope.trace.trace import Trace

MOST = 16
"""Number of lanes; of more ranks those that waited or were waited for longest are shown."""


@dataclass(frozen=True, slots=True)
class RankLanes:
    """The lanes of a step."""

    title: str
    begin: int
    end: int
    lanes: tuple[TimeLane, ...]
    notes: tuple[str, ...]


def rank_lanes(trace: Trace, number: int) -> RankLanes | None:
    """The lanes of this step; None for the trace of one process."""
    ranks = trace.once(RankOf).numbers
    if not ranks:
        return None
    waits = [wait for wait in trace.once(rank_waits).waits if wait.step == number]
    bars: dict[int, list[Bar]] = {rank: [] for rank in ranks}
    for rank, bar in _bars(trace, step_ids(trace, number)):
        if rank in bars:
            bars[rank].append(bar)
    every = [bar for of_rank in bars.values() for bar in of_rank]
    if not every:
        return None
    every += [Bar(wait.begin, wait.begin + wait.ns, NodeKind.OTHER) for wait in waits]
    begin = min(bar.begin for bar in every)
    shown = _chosen(ranks, waits)
    left = len(ranks) - len(shown)
    note = f"showing {count(len(shown))} of {count(len(ranks))} ranks, those with the longest waits"
    return RankLanes(
        f"ranks in step {number}: recorded work, and waits in collectives (inferred)",
        begin,
        max(begin + 1, *(bar.end for bar in every)),
        tuple(_lane(rank, bars[rank], waits) for rank in shown),
        (f"{note}; --rank N for one",) if left else (),
    )


def _bars(trace: Trace, steps: list[int]) -> Iterator[tuple[int, Bar]]:
    """What ran in these steps, and the rank of each: calls, backwards, steps of optimizers."""
    whose = trace.once(RankOf)
    for kind in (Op, GraphTask, Span):
        table = trace.table(kind)
        chosen = np.isin(table["step"], steps) & (table["end"] != NONE)
        if kind is Span:
            chosen &= table["phase"] == Phase.OPTIMIZER
        rows = np.flatnonzero(chosen)
        owners = whose.of(kind.TABLE, table["id"][rows]).tolist()
        begin, end = table["begin"][rows].tolist(), table["end"][rows].tolist()
        names = trace.texts(table["name"][rows]) if kind is Op else []
        kinds = {name: kind_of_call(name) for name in set(names)}
        for at, rank in enumerate(owners):
            drawn = kinds[names[at]] if names else NodeKind.OTHER
            yield rank, Bar(begin[at], end[at], drawn)


def _chosen(ranks: tuple[int, ...], waits: list[RankWait]) -> list[int]:
    """At most so many ranks, in order."""
    weight: Counter[int] = Counter()
    for wait in waits:
        weight[wait.rank] += wait.ns
        weight[wait.on] += wait.ns
    return sorted(sorted(ranks, key=lambda rank: -weight[rank])[:MOST])


def _lane(rank: int, bars: list[Bar], waits: list[RankWait]) -> TimeLane:
    own = [wait for wait in waits if wait.rank == rank]
    waited = sum(wait.ns for wait in own)
    asleep = tuple(Bar(wait.begin, wait.begin + wait.ns, NodeKind.OTHER) for wait in own)
    words = f"waited {duration(waited)}" if own else ""
    return TimeLane(LaneKind.RUN, f"rank {rank}", tuple(bars), (), words, asleep)


def exchange_columns(trace: Trace) -> dict[str, Ids]:
    """For the page: calls of collectives that belong together, one group after the other."""
    rows = [
        (number, call.rank, call.begin, call.end)
        for number, calls in enumerate(
            calls for group in trace.once(grouped_calls) for calls in group.together
        )
        for call in calls
    ]
    columns = np.array(rows, np.int64).reshape(-1, 4).T
    return dict(zip(("group", "rank", "begin", "end"), columns, strict=True))
