"""Collectives in which ranks waited for others that never came."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

from gradscope.analysis.ranks.collectives import GroupCalls, RankCall, grouped_calls
from gradscope.analysis.ranks.training.parting import last_seen
from gradscope.analysis.ranks.whose import OK, endings
from gradscope.trace.schema import NONE
from gradscope.trace.trace import Trace


@dataclass(frozen=True, slots=True)
class MissedCollective:
    """A collective that some ranks of a group never called."""

    group: GroupCalls
    missing: tuple[int, ...]  # ranks
    waits: tuple[RankCall, ...]  # of the others, which waited


def missed(trace: Trace) -> tuple[MissedCollective, ...]:
    """Each such collective, at most one for each group."""
    ended, found = endings(trace), []
    for group in trace.once(grouped_calls):
        calls = [call for call in group.parted.values() if call is not None]
        missing = tuple(rank for rank, call in group.parted.items() if call is None)
        waits = tuple(call for call in calls if _waited(trace, call, group, ended[call.rank]))
        if missing and waits and all(call.fits(calls[0]) for call in calls):
            found.append(MissedCollective(group, missing, waits))
    return tuple(found)


def crossed(trace: Trace) -> tuple[tuple[MissedCollective, MissedCollective], ...]:
    """Pairs in one group: the ranks that miss in one of them wait in the other one."""
    return tuple(
        (one, other)
        for one, other in combinations(trace.once(missed), 2)
        if one.group.members == other.group.members
        and {call.rank for call in one.waits} <= {*other.missing}
        and {call.rank for call in other.waits} <= {*one.missing}
    )


def _waited(trace: Trace, call: RankCall, group: GroupCalls, ending: str) -> bool:
    """Whether a rank was still in a call when it ended, or failed in it."""
    if call.end == NONE:
        return True
    failed = ending not in ("", OK) and group.calls[call.rank][-1] is call
    return failed and (group.reduces or last_seen(trace, call.rank)[0] < call.end)
