"""How the clocks of ranks stand to one another, and how that is known.

Ranks of one machine share its clock. Clocks of several machines differ by milliseconds; but a
collective ends on all ranks when the last has come to it, and a backward of DistributedDataParallel
when the last gradient has been reduced: such ends, matched one by one, say by how much. Where there
are none, the machines' clocks are taken at their word.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from gradscope.trace.schema import NONE, GraphTask, Module, Phase, Span
from gradscope.trace.trace import Trace

REDUCES = "DistributedDataParallel"
GOES_ON = ", asynchronous"
"""Ends the names of collectives that had not come to their end when they returned."""

Ends: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Clocks:
    """Of each rank, by how many ns its times come later than those of the earliest clock base."""

    shifts: tuple[int, ...]
    base: int  # of all: ns since the epoch
    words: str  # how that is known


def clocks(traces: Sequence[Trace]) -> Clocks:
    """One clock for all: that of the first trace."""
    bases = [trace.meta.get("clock_base", 0) for trace in traces]
    if len({trace.meta.get("host") for trace in traces}) == 1:
        return _from(bases, "ranks ran on one machine and share its clock")
    what, found = _together(traces)
    if not what:
        return _from(bases, "by the clocks of several machines, which may differ")
    ends = [each + base for each, base in zip(found, bases, strict=True)]
    late = [np.round(np.median(each - ends[0])).astype(int).item() for each in ends]
    apart = max(
        np.abs(each - ends[0] - by).max().item() for each, by in zip(ends, late, strict=True)
    )
    return _from(
        [base - by for base, by in zip(bases, late, strict=True)],
        f"by the ends of {len(ends[0])} {what}, which ranks end together (at most "
        f"{apart / 1e6:.3g} ms apart)",
    )


def _from(bases: Sequence[int], words: str) -> Clocks:
    first = min(bases)
    return Clocks(tuple(base - first for base in bases), first, words)


def _reduces(trace: Trace) -> bool:
    return REDUCES in trace.texts(trace.table(Module)["type"])


def _together(traces: Sequence[Trace]) -> tuple[str, list[Ends]]:
    """What all ranks ended together, and when each did; "": nothing is known of that kind."""
    met = [_collectives(trace) for trace in traces]
    if met[0][0] and all(names == met[0][0] for names, _ in met):
        return "collectives", [ends for _, ends in met]
    ended = [_backwards(trace) for trace in traces]
    same = len(ended[0]) > 0 and len({len(each) for each in ended}) == 1
    if same and all(_reduces(trace) for trace in traces):
        return f"backwards of {REDUCES}", ended
    return "", []


def _collectives(trace: Trace) -> tuple[list[str], Ends]:
    """The names of those that ended as they returned, in order, and when."""
    spans = trace.table(Span)
    names = np.array(trace.texts(spans.array("name")), object)
    waited = np.array([not name.endswith(GOES_ON) for name in names], np.bool_)
    chosen = (spans.array("phase") == Phase.COLLECTIVE) & (spans.array("end") != NONE) & waited
    return names[chosen].tolist(), spans.array("end")[chosen]


def _backwards(trace: Trace) -> Ends:
    """When outermost backwards ended."""
    tasks = trace.table(GraphTask)
    ended: Ends = tasks.array("end")[(tasks.array("parent") == NONE) & (tasks.array("end") != NONE)]
    return ended
