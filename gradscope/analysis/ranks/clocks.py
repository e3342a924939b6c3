"""Aligns the clocks of ranks.

Ranks of one machine share its clock. Clocks of several machines differ by milliseconds or more; but
a collective such as `all_reduce` ends on all ranks of its group when the last one has entered it,
and a backward of DistributedDataParallel when the last gradient has been reduced: the differences
of such ends show the differences of clocks. Machines that share no group are aligned through
others. If there are no such ends, the machines' clocks are used unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from gradscope.analysis.ranks.collectives import REDUCES, calls_of
from gradscope.trace.schema import NONE, GraphTask, Module
from gradscope.trace.trace import Trace

END_TOGETHER = frozenset((
    "all_gather", "all_gather_into_tensor", "all_gather_object", "all_gather_single", "all_reduce",
    "all_to_all", "all_to_all_single", "barrier", "monitored_barrier", "reduce_scatter",
    "reduce_scatter_single", "reduce_scatter_tensor",
))  # fmt: skip
"""Collectives that no rank leaves before all have entered. The source of a broadcast does."""

Ends: TypeAlias = dict[int, int]
"""By rank, when something ended that all of them ended together; ns since the epoch."""


@dataclass(frozen=True, slots=True)
class Clocks:
    """The shift of each rank's times in ns, relative to the earliest clock base."""

    shifts: tuple[int, ...]
    base: int  # of all ranks: ns since the epoch
    words: str  # how the clocks were aligned


def clocks(traces: Mapping[int, Trace]) -> Clocks:
    """One clock for the traces of ranks: that of the first one's machine."""
    bases = {rank: trace.meta.get("clock_base", 0) for rank, trace in traces.items()}
    hosts = {rank: str(trace.meta.get("host", "")) for rank, trace in traces.items()}
    if len({*hosts.values()}) == 1:
        return _from([*bases.values()], "ranks ran on one machine and share its clock")
    for what, ends in (
        ("collectives", _collectives(traces)),
        (f"backwards of {REDUCES}", _backwards(traces)),
    ):
        met = [
            {rank: end + bases[rank] for rank, end in each.items()}
            for each in ends
            if len({hosts[rank] for rank in each}) > 1
        ]
        late = _late(hosts, met)
        if len(late) == len({*hosts.values()}):
            apart = max(_apart(hosts, late, each) for each in met)
            return _from(
                [base - late[hosts[rank]] for rank, base in bases.items()],
                f"by the ends of {len(met)} {what}, which ranks end together (at most "
                f"{apart / 1e6:.3g} ms apart)",
            )
    return _from([*bases.values()], "by the clocks of several machines, which may differ")


def _from(bases: Sequence[int], words: str) -> Clocks:
    first = min(bases)
    return Clocks(tuple(base - first for base in bases), first, words)


def _late(hosts: Mapping[int, str], met: Sequence[Ends]) -> dict[str, int]:
    """How much later than that of the first rank the clock of each machine is, if that shows."""
    late = {next(iter(hosts.values())): 0}
    while True:
        found: dict[str, list[int]] = {}
        for ends in met:
            known = [end - late[hosts[rank]] for rank, end in ends.items() if hosts[rank] in late]
            for rank, end in ends.items() if known else ():
                if hosts[rank] not in late:
                    found.setdefault(hosts[rank], []).append(end - _middle(known))
        if not found:
            return late
        nearest = max(found, key=lambda host: len(found[host]))
        late[nearest] = _middle(found[nearest])


def _middle(numbers: Sequence[int]) -> int:
    """The median. Times since the epoch have more digits than a float."""
    first = numbers[0]
    after: float = np.median([number - first for number in numbers]).item()
    return first + round(after)


def _apart(hosts: Mapping[int, str], late: Mapping[str, int], ends: Ends) -> int:
    aligned = [end - late[hosts[rank]] for rank, end in ends.items()]
    return max(aligned) - min(aligned)


def _collectives(traces: Mapping[int, Trace]) -> list[Ends]:
    """The ends of collectives that ended when they returned, aligned by group and order."""
    return [
        {call.rank: call.end for call in calls}
        for group in calls_of(traces)
        for calls in group.together
        if calls[0].name in END_TOGETHER
        and not any(call.asynchronous or call.end == NONE for call in calls)
    ]


def _backwards(traces: Mapping[int, Trace]) -> list[Ends]:
    """The ends of outermost backwards, if all ranks have as many and reduce gradients in them."""
    ended = {rank: _ended(trace) for rank, trace in traces.items()}
    if len({len(each) for each in ended.values()}) > 1 or not all(map(_reduces, traces.values())):
        return []
    return [dict(zip(ended, ends, strict=True)) for ends in zip(*ended.values(), strict=True)]


def _ended(trace: Trace) -> list[int]:
    tasks = trace.table(GraphTask)
    outer = (tasks.array("parent") == NONE) & (tasks.array("end") != NONE)
    ends: list[int] = tasks.array("end")[outer].tolist()
    return ends


def _reduces(trace: Trace) -> bool:
    return REDUCES in trace.texts(trace.table(Module)["type"])
