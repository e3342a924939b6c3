"""Steps of several ranks that belong together, although ranks may have taken different numbers.

A round begins with each call of a collective that all of these ranks call together. A step is in
the round of the last call before it. A rank that skips a step, or has fewer batches, has no step in
some rounds; the others are not shifted by that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from gradscope.analysis.program.acts import Done
from gradscope.analysis.ranks.collectives import GroupCalls, grouped_calls
from gradscope.trace.schema import StepAct
from gradscope.trace.trace import Trace

Rounds = dict[int, list[int]]
Steps = dict[int, Done[StepAct]]
"""By rank."""


def steps_together(trace: Trace, steps: Mapping[int, Sequence[Done[StepAct]]]) -> list[Steps]:
    """The steps that ranks took together, and, where some ranks took none, those of the others."""
    of = rounds(trace, {rank: [step.t for step in own] for rank, own in steps.items()})
    if of is None:
        together = zip(*steps.values(), strict=False)
        return [dict(zip(steps, each, strict=True)) for each in together]
    found: dict[int, Steps] = {}
    for rank, own in steps.items():
        for number, step in zip(of[rank], own, strict=True):
            found.setdefault(number, {})[rank] = step
    return [found[number] for number in sorted(found)]


def rounds(trace: Trace, times: Mapping[int, Sequence[int]]) -> Rounds | None:
    """The round of each step, by rank; `times`: of its steps, in order.

    None: a rank takes several steps in a round, or these ranks call no collectives together.
    """
    for group in trace.once(grouped_calls):
        found = _rounds(group, times) if {*times} <= {*group.calls} else None
        if found is not None:
            return found
    return None


def _rounds(group: GroupCalls, times: Mapping[int, Sequence[int]]) -> Rounds | None:
    begins: Rounds = {rank: [] for rank in times}
    for calls in group.together:
        for call in calls:
            if call.rank in begins:
                begins[call.rank].append(call.begin)
    found = {
        rank: np.searchsorted(np.maximum.accumulate(begins[rank]), own).tolist()
        for rank, own in times.items()
        if begins[rank]
    }
    alone = all(len({*own}) == len(own) for own in found.values())
    return found if alone and len(found) == len(times) else None
