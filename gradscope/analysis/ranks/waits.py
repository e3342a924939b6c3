"""Which rank waited for which in collectives, inferred from when each rank entered them.

The groups of collectives are not compared: calls are matched by their order, the first one of each
rank, the second one, as long as all ranks called the same. A rank waited for the last one to enter,
if its own call had not ended by then. Waits inside of DistributedDataParallel are in C++, and not
recorded.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gradscope.analysis.identity.steps import step_numbers
from gradscope.analysis.ranks.clocks import GOES_ON, is_met
from gradscope.analysis.ranks.whose import RankOf
from gradscope.trace.schema import NONE, Phase, Span
from gradscope.trace.trace import Trace


@dataclass(frozen=True, slots=True)
class RankWait:
    """A rank waited in a collective until another one entered it, which was the last."""

    rank: int
    on: int  # the rank that entered last
    name: str  # "all_reduce"
    number: int  # of the call among the collectives of each rank, from 0
    step: int  # the number of the step in which the rank called it, or NONE
    span: int  # the id of the waiting call
    begin: int
    ns: int


@dataclass(frozen=True, slots=True)
class RankWaits:
    """All waits, the longest first, and what is known about the rest."""

    waits: tuple[RankWait, ...]
    collectives: int  # number of calls that were matched
    unmatched: int  # number of calls that were not: ranks called different collectives


NO_WAITS = RankWaits((), 0, 0)


def rank_waits(trace: Trace) -> RankWaits:
    """The waits of a merged trace; none in the trace of one process."""
    ranks = trace.once(RankOf)
    table = trace.table(Span)
    spans = table.take(np.flatnonzero(table["phase"] == Phase.COLLECTIVE))
    rows = [each for each in spans if is_met(each.name)]
    if not rows or not ranks.numbers:
        return NO_WAITS
    called: dict[int, list[Span]] = {rank: [] for rank in ranks.numbers}
    owners = ranks.of(Span.TABLE, np.array([row.id for row in rows], np.int64)).tolist()
    for rank, row in sorted(zip(owners, rows, strict=True), key=lambda each: each[1].begin):
        called.setdefault(rank, []).append(row)
    numbers, waits, matched = step_numbers(trace), [], 0
    for number, calls in enumerate(zip(*(called[rank] for rank in ranks.numbers), strict=False)):
        if len({call.name for call in calls}) > 1:
            break
        matched += 1
        last = max(range(len(calls)), key=lambda place: calls[place].begin)
        since = calls[last].begin
        for rank, call in zip(ranks.numbers, calls, strict=True):
            goes_on = call.end != NONE and call.end < since
            if call.name.endswith(GOES_ON) or goes_on or call.begin >= since:
                continue
            step = numbers.get(call.step, NONE)
            waits.append(
                RankWait(
                    rank, ranks.numbers[last], call.name, number, step, call.id, call.begin,
                    since - call.begin,
                )
            )  # fmt: skip
    waits.sort(key=lambda wait: -wait.ns)
    return RankWaits(tuple(waits), matched, len(rows) - matched * len(ranks.numbers))
