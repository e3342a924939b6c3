"""Steps that ranks made together, by the collectives before them.

Ranks of a group call the same collectives in the same order. So two ranks make the same step if
both have called the same number of collectives before it. The number of a step itself shows
nothing if a rank has skipped one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from gradscope.analysis.ranks.collectives import is_met
from gradscope.trace.schema import NONE, Collective, ProcessGroup, Span
from gradscope.trace.trace import Trace


class Meetings:
    """When a rank called the collectives of each group, by the members of the group."""

    def __init__(self, rank: int, trace: Trace) -> None:
        self.rank = rank
        spans = {row.id: row for row in trace.rows(Span)}
        groups = {row.id: row.members for row in trace.rows(ProcessGroup)}
        found: dict[tuple[int, ...], list[int]] = defaultdict(list)
        for row in trace.rows(Collective):
            span, members = spans.get(row.span), groups.get(row.group, ())
            if span is not None and span.begin != NONE and len(members) > 1 and is_met(span.name):
                found[members].append(span.begin)
        self._times = {members: np.sort(times) for members, times in found.items()}

    def shared(self, other: Meetings) -> list[tuple[int, ...]]:
        """The groups in which both ranks called collectives."""
        both = self._times.keys() & other._times.keys()
        return sorted(each for each in both if {self.rank, other.rank} <= {*each})

    def before(self, groups: Sequence[tuple[int, ...]], t: int) -> tuple[int, ...]:
        """The number of collectives of each group before a time."""
        return tuple(int(np.searchsorted(self._times[each], t)) for each in groups)


def counterpart(
    one: Meetings, steps: Sequence[int], number: int, other: Meetings, others: Sequence[int]
) -> int | None:
    """The number of the step that the other rank made together with a step; None: there is none.

    Of steps between the same collectives, the first ones belong together, and so on; if one rank
    made more of them than the other, nothing shows which. `steps`: times of the steps.
    """
    groups = one.shared(other)
    if not groups:
        return number if number < len(others) else None
    at = one.before(groups, steps[number])
    own = [i for i, t in enumerate(steps) if one.before(groups, t) == at]
    theirs = [i for i, t in enumerate(others) if other.before(groups, t) == at]
    return theirs[own.index(number)] if len(own) == len(theirs) else None


def numbers_together(
    meetings: Sequence[Meetings], steps: Mapping[int, Sequence[int]], number: int
) -> dict[int, int | None]:
    """By rank, the number of the step that it made together with a step of the first rank."""
    first = meetings[0]
    own = steps[first.rank]
    if number >= len(own):
        return {each.rank: None for each in meetings}
    found: dict[int, int | None] = {first.rank: number}
    for each in meetings[1:]:
        found[each.rank] = counterpart(first, own, number, each, steps[each.rank])
    return found
