"""The rank that comes last to the backwards, and the line at which it takes longer than others.

Ranks of DistributedDataParallel wait for each other inside of backwards, so a rank that begins its
backwards last delays all of them. What it does before is compared with the other ranks, line by
line and step by step. Backwards and collectives are left out: there a rank may wait itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradscope.analysis.identity.leaves import fill_leaves
from gradscope.analysis.identity.sites import Site, site_of_row
from gradscope.analysis.identity.steps import step_numbers
from gradscope.analysis.ranks.merging.one_rank import RankPart, parts
from gradscope.analysis.ranks.replicas import Group, replicated
from gradscope.analysis.ranks.training.branches import loop_around
from gradscope.analysis.timing.by_line import ProgramCalls
from gradscope.analysis.timing.durations import node_runs
from gradscope.trace.schema import NONE, Accumulate, GraphTask, Node, Step
from gradscope.trace.trace import Trace

WARM_UP = 2
"""Number of first steps that are left out: memory is allocated, code is compiled."""

FEWEST = 6
"""Least number of further steps."""

OFTEN = 0.9
"""Least share of steps in which a slow rank comes last."""

LARGE = 0.2
"""Least share of the time of steps for which other ranks wait."""

SOME = 0.05
"""The same before backwards, if they wait in backwards, too."""

SHORT_NS = 5_000_000
"""Delays up to this are not reported: a busy machine delays a process as long."""

CLEARLY = 5
"""Factor between a slow line on its rank and on others, compared with the rest of that rank.

Other processes on the machine can make a rank a few times slower: not that much, or all of it.
"""

IN, BEFORE, AFTER = "in", "before", "after"
"""Where time passed: in calls of a line, or while nothing ran that was recorded, before or after.

Each such time is before a line, and after another one.
"""

AT_LEAST_AFTER = 0.7
"""Least part of the time after a line that is before another one, for that one to be named."""

LineOf = tuple[str, str]
"""A place, and one of these."""

Times = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class SlowRank:
    """A rank that others waited for in most steps, because of one line. Times: medians, in ns."""

    rank: int
    steps: int  # number of steps that were compared
    last: int  # number of them in which it came last
    late: int  # after the last of the others
    share: float  # of the time of all steps
    name: str  # the line, or the name of a span: "train.py:41", "DataLoader"
    site: Site  # the line; for a span, the loop around the backward
    how: str  # IN, BEFORE or AFTER
    took: int
    others: int  # the same on the rank that took most of the others
    task: int  # a backward of this rank


@dataclass(frozen=True, slots=True)
class WaitedFor:
    """A rank that came last in most steps, and those that waited for it. Times: in ns."""

    rank: int
    parts: tuple[RankPart, ...]  # of all of them
    numbers: tuple[int, ...]  # of the steps that were compared
    last: int  # number of them in which it came last
    late: int  # after the last of the others, the median
    share: float  # of the time of all steps, with what the nodes of this rank take longer
    task: int  # a backward of this rank


@dataclass(frozen=True, slots=True)
class _Begun:
    """When one rank began its last backward of each step."""

    part: RankPart
    begins: Mapping[int, int]  # by the number of the step
    lasts: Mapping[int, int]  # the times of steps
    tasks: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class _Paced(_Begun):
    """The same, and what it spent before."""

    lines: Mapping[LineOf, Mapping[int, int]]  # by step
    sites: Mapping[str, Site]
    nodes: int  # the time of nodes that computed


def slow_ranks(trace: Trace) -> tuple[SlowRank, ...]:
    """One at most for each group; none if ranks ran on several machines, whose clocks differ."""
    found = (
        _slow([_paced(each) for each in ranks])
        for ranks in trace.once(_together)
        if _latest(ranks) is not None
    )
    return tuple(each for each in found if each is not None)


def waited_for(trace: Trace) -> tuple[WaitedFor, ...]:
    """The ranks that others wait for in most steps, whatever the reason."""
    found = []
    for ranks in trace.once(_together):
        if (latest := _latest(ranks, SOME)) is not None:
            slow, (_, steps, late, share) = ranks[latest.slowest], latest
            nodes = {each.part.rank: _in_nodes(each.part.trace) for each in ranks}
            longer = nodes.pop(slow.part.rank) - max(nodes.values())
            share += max(longer, 0) / max(sum(slow.lasts.values()), 1)
            last, delay = int(np.count_nonzero(late > 0)), int(np.median(late))
            every, task = tuple(each.part for each in ranks), slow.tasks[steps[0]]
            found.append(WaitedFor(slow.part.rank, every, tuple(steps), last, delay, share, task))
    return tuple(each for each in found if each.share >= LARGE)


def _together(trace: Trace) -> list[list[_Begun]]:
    """The ranks of each group of several, if all ran on one machine."""
    ranks = trace.meta.get("ranks", ())
    if len({each.get("host") for each in ranks}) != 1:
        return []
    together: dict[Group, list[_Begun]] = {}
    for part in trace.once(parts):
        models = part.trace.once(replicated)
        if models:
            begun = _begun(part, {tensor for _, parameters in models for tensor in parameters})
            for group in dict.fromkeys(group for group, _ in models):
                together.setdefault(group, []).append(begun)
    return [several for several in together.values() if len(several) > 1]


def _begun(part: RankPart, held: set[int]) -> _Begun:
    trace, numbers = part.trace, step_numbers(part.trace)
    events = trace.table(Accumulate)
    reached = {*events["task"][np.isin(events["tensor"], list(held))].tolist()}
    rows = [row for row in trace.rows(GraphTask) if row.id in reached and row.step in numbers]
    rows.sort(key=lambda row: row.begin)
    steps = [row for row in trace.rows(Step) if row.end != NONE]
    return _Begun(
        part,
        {numbers[row.step]: row.begin for row in rows},
        {row.number: row.end - row.begin for row in steps},
        {numbers[row.step]: row.id for row in rows},
    )


def _paced(begun: _Begun) -> _Paced:
    trace = begun.part.trace
    lines, sites = _by_line(trace, step_numbers(trace))
    return _Paced(
        begun.part, begun.begins, begun.lasts, begun.tasks, lines, sites, _in_nodes(trace)
    )


def _in_nodes(trace: Trace) -> int:
    """The time of all nodes of backwards, except those of leaves: there a rank may wait."""
    runs = node_runs(trace)
    leaves = trace.table(Node)["id"][fill_leaves(trace)]
    return int(runs.self_ns[(runs.self_ns != NONE) & ~np.isin(runs.node, leaves)].sum())


def _by_line(
    trace: Trace, numbers: Mapping[int, int]
) -> tuple[dict[LineOf, dict[int, int]], dict[str, Site]]:
    """The times in calls of each line, outside of backwards and collectives, and around them."""
    calls = ProgramCalls(trace)
    lines: dict[LineOf, dict[int, int]] = {}
    sites: dict[str, Site] = {}
    waits = calls.is_collective
    gaps, after = calls.gaps_after()
    ended = np.where(after == NONE, NONE, calls.key[after])
    own = np.where(waits, 0, calls.own_times())
    for how, keys, ns in ((IN, calls.key, own), (BEFORE, calls.key, gaps), (AFTER, ended, gaps)):
        for key, step, spent in zip(keys.tolist(), calls.step.tolist(), ns.tolist(), strict=True):
            site, number = calls.site(key), numbers.get(step, NONE)
            if spent and site.place and number != NONE:
                sites[site.place] = site
                of_line = lines.setdefault((site.place, how), {})
                of_line[number] = of_line.get(number, 0) + spent
    return lines, sites


class _Latest(NamedTuple):
    """The rank that mostly came last, by its index."""

    slowest: int
    steps: list[int]  # that were compared
    late: Times  # after the last of the others
    share: float


def _latest(ranks: Sequence[_Begun], large: float = LARGE) -> _Latest | None:
    """The rank that others waited for in most steps, if they waited long.

    `large`: least share of the time of steps for which they waited.
    """
    known = (set(each.begins) & set(each.lasts) for each in ranks)
    steps = sorted(set[int].intersection(*known))[WARM_UP:]
    if len(steps) < FEWEST:
        return None
    begins = np.array([[each.begins[step] for step in steps] for each in ranks], np.float64)
    last = np.argmax(begins, axis=0)
    slowest = int(np.argmax(np.bincount(last, minlength=len(ranks))))
    late: Times = begins[slowest] - np.delete(begins, slowest, axis=0).max(axis=0)
    lasts = np.array([ranks[slowest].lasts[step] for step in steps], np.float64)
    delay, share = float(np.median(late)), float(np.maximum(late, 0).sum() / lasts.sum())
    often = np.count_nonzero(late > 0) >= OFTEN * len(steps)
    if not often or delay < max(SHORT_NS, large * float(np.median(lasts))) or share < large:
        return None
    return _Latest(slowest, steps, late, share)


def _slow(ranks: list[_Paced]) -> SlowRank | None:
    latest = _latest(ranks)
    if latest is None:
        return None
    slowest, steps, late, share = latest
    delay = float(np.median(late))
    others = [each for place, each in enumerate(ranks) if place != slowest]
    every = list(_lines(ranks[slowest], others, steps, delay))
    after = [each for each in every if each[1][1] == AFTER]
    found = max((each for each in every if each[1][1] != AFTER), default=None)
    if after and (found is None or found[0] < AT_LEAST_AFTER * max(after)[0]):
        found = max(after)
    if found is None:
        return None
    _, (place, how), took, most = found
    slow, task = ranks[slowest], ranks[slowest].tasks[steps[0]]
    site, own = slow.sites[place], slow.part.trace
    if not site.file:
        called = site_of_row(own, GraphTask, task)
        site = loop_around(own, called) or called
    return SlowRank(
        slow.part.rank,
        len(steps),
        int(np.count_nonzero(late > 0)),
        int(delay),
        share,
        place,
        site,
        how,
        int(took),
        int(most),
        task,
    )


def _lines(
    slow: _Paced, others: list[_Paced], steps: list[int], delay: float
) -> Iterator[tuple[float, LineOf, float, float]]:
    """The lines that take most of the delay, and clearly more than the same line elsewhere."""
    mine = {key: _times(slow, key, steps) for key in slow.lines}
    theirs = {key: _most(others, key, steps) for key in (*slow.lines, *_keys(others))}
    all_mine, all_theirs = (
        sum(np.median(times) for key, times in each.items() if key[1] != AFTER)
        for each in (mine, theirs)
    )
    nodes = slow.nodes / max(*(each.nodes for each in others), 1)
    for key, times in mine.items():
        took, most = float(np.median(times)), float(np.median(theirs[key]))
        rest = (all_mine - took) / max(all_theirs - most, 1)
        factor = CLEARLY * max(rest, nodes, 1)
        low, high = np.percentile(times, 25), np.percentile(theirs[key], 75)
        if took - most >= delay / 2 and low > max(high, factor * most):
            yield took - most, key, took, most


def _times(each: _Paced, key: LineOf, steps: list[int]) -> Times:
    of_line = each.lines.get(key, {})
    return np.array([of_line.get(step, 0) for step in steps], np.float64)


def _most(others: list[_Paced], key: LineOf, steps: list[int]) -> Times:
    most: Times = np.max([_times(each, key, steps) for each in others], axis=0)
    return most


def _keys(others: list[_Paced]) -> Iterator[LineOf]:
    for each in others:
        yield from each.lines
