"""Parameters that are sent in each step, although all ranks have the same ones."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from gradscope.analysis.identity.sites import Site, own_site
from gradscope.analysis.identity.steps import step_numbers
from gradscope.analysis.ranks.collectives import RankCall, grouped_calls
from gradscope.trace.schema import BackendWork, Collective, Tensor
from gradscope.trace.trace import Trace

SENDS = "broadcast"
MANY_STEPS = 3
"""Smallest number of steps in which equal parameters are sent."""
LEAST_BYTES = 1 << 10
"""Smallest number of bytes in a step that are worth a word."""


@dataclass(frozen=True, slots=True)
class SentAgain:
    """The calls of one line that sent parameters which all ranks had."""

    site: Site
    ranks: tuple[int, ...]
    first: RankCall
    parameters: tuple[int, ...]  # on the first rank
    steps: tuple[int, ...]  # numbers, on the first rank
    calls: int
    bytes: int  # of all calls, on one rank
    ns: int  # in all calls, on the first rank


def sent_again(trace: Trace) -> tuple[SentAgain, ...]:
    """Each line that sent equal parameters in most steps, and never others after the first step."""
    passed = {row.span: row for row in trace.rows(Collective)}
    hashes = {row.span: row.hashes[0] for row in trace.rows(BackendWork) if row.hashes}
    of_line: dict[Site, list[tuple[RankCall, ...]]] = defaultdict(list)
    for group in trace.once(grouped_calls):
        for calls in group.together if len(group.calls) == len(group.members) else ():
            about = [passed.get(call.span, Collective()) for call in calls]
            own = all(row.holds == "parameters" and not row.caller for row in about)
            if own and calls[0].name == SENDS:
                of_line[own_site(trace, calls[0].stack)].append(calls)
    numbers, tensors = step_numbers(trace), trace.table(Tensor)
    sizes = dict(zip(tensors["id"].tolist(), tensors["bytes"].tolist(), strict=True))
    found = [_judged(site, each, passed, hashes, numbers, sizes) for site, each in of_line.items()]
    return tuple(each for each in found if each is not None)


def _judged(
    site: Site,
    every: list[tuple[RankCall, ...]],
    passed: dict[int, Collective],
    hashes: dict[int, int],
    numbers: dict[int, int],
    sizes: dict[int, int],
) -> SentAgain | None:
    equal = [calls for calls in every if len({hashes.get(call.span, 0) for call in calls}) == 1
             and calls[0].span in hashes]  # fmt: skip
    other = {numbers.get(calls[0].step, -1) for calls in every if calls not in equal}
    steps = sorted({numbers.get(calls[0].step, -1) for calls in equal} - {-1} - other)
    if len(steps) < MANY_STEPS or (other and max(other) >= steps[0]):
        return None
    if 2 * len(steps) < steps[-1] - steps[0] + 1:  # seldom: a check now and then
        return None
    first = [calls[0] for calls in equal]
    size = sum(sizes.get(each, 0) for call in first for each in passed[call.span].parameters)
    if size < LEAST_BYTES * len(steps):
        return None
    parameters = dict.fromkeys(each for call in first for each in passed[call.span].parameters)
    return SentAgain(
        site, tuple(call.rank for call in equal[0]), first[0], tuple(parameters), tuple(steps),
        len(equal), size, sum(max(call.end - call.begin, 0) for call in first),
    )  # fmt: skip
