"""Which rank waited for which in collectives, inferred from when each rank entered them.

A rank waited for the last one to enter, if its own call had not ended by then. A backward of
DistributedDataParallel waits from the begin of its last bucket on: the rank has then computed all
gradients.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from gradscope.analysis.identity.sites import own_site
from gradscope.analysis.identity.steps import step_numbers
from gradscope.analysis.ranks.collectives import MAKES, grouped_calls
from gradscope.trace.schema import NONE
from gradscope.trace.trace import Trace

IN_BACKWARD = "backward"
"""What a rank is in that waits for the last bucket."""


@dataclass(frozen=True, slots=True)
class RankWait:
    """A rank waited in a collective until another one entered it, which was the last."""

    rank: int
    on: int  # the rank that entered last
    name: str  # "all_reduce", or IN_BACKWARD
    group: str  # "default_pg"
    step: int  # the number of the step in which the rank called it, or NONE
    span: int  # the id of the waiting call
    place: str  # the line that called it, as in "train.py:41"
    begin: int
    ns: int


@dataclass(frozen=True, slots=True)
class RankWaits:
    """All waits, the longest first, and what is known about the rest."""

    waits: tuple[RankWait, ...]
    collectives: int  # number of calls that were matched
    unmatched: int  # number of calls after ranks of their group called different collectives


NO_WAITS = RankWaits((), 0, 0)


def rank_waits(trace: Trace) -> RankWaits:
    """The waits of a merged trace; none in the trace of one process."""
    steps, waits, matched, every = step_numbers(trace), [], 0, 0
    place = cache(lambda stack: own_site(trace, stack).place)
    for group in trace.once(grouped_calls):
        if group.kind == MAKES:
            continue  # often only the members of the new group wait
        matched += len(group.together)
        every += sum(map(len, group.calls.values())) - sum(map(len, group.together))
        for calls in group.together:
            last = max(calls, key=lambda call: call.begin)
            for call in calls:
                goes_on = call.end != NONE and call.end < last.begin
                waits_for_it = call.finishes if group.reduces else not call.asynchronous
                if not waits_for_it or goes_on or call.begin >= last.begin:
                    continue
                waits.append(
                    RankWait(
                        call.rank, last.rank, IN_BACKWARD if group.reduces else call.name,
                        group.described,
                        steps.get(call.step, NONE), call.span,
                        place(call.stack), call.begin, last.begin - call.begin,
                    )
                )  # fmt: skip
    waits.sort(key=lambda wait: -wait.ns)
    return RankWaits(tuple(waits), matched, every)
