"""Aligns the clocks of ranks.

Ranks of one machine share its clock. Clocks of several machines differ by milliseconds; but a
collective ends on all ranks when the last one has entered it, and a backward of
DistributedDataParallel when the last gradient has been reduced: the differences of such ends show
the differences of clocks. If there are none, the machines' clocks are used unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from gradscope.trace.schema import NONE, GraphTask, Module, Phase, Span
from gradscope.trace.schema.sharding import GOES_ON
from gradscope.trace.trace import Trace

REDUCES = "DistributedDataParallel"
ONE_TO_ONE = ("send", "recv", "batch_isend_irecv")
"""What two ranks do with each other, and the others of their group do not call."""
BEGINS_FUNCTIONAL = "functional "
"""Beginning of the names of collectives that DTensor calls, possibly in other orders."""

Ends: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Clocks:
    """The shift of each rank's times in ns, relative to the earliest clock base."""

    shifts: tuple[int, ...]
    base: int  # of all ranks: ns since the epoch
    words: str  # how the clocks were aligned


def clocks(traces: Sequence[Trace]) -> Clocks:
    """One clock for all traces: that of the first one."""
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
    """Events that all ranks ended together, and their ends; "": there are none."""
    met = [_collectives(trace) for trace in traces]
    if met[0][0] and all(names == met[0][0] for names, _ in met):
        return "collectives", [ends for _, ends in met]
    ended = [_backwards(trace) for trace in traces]
    same = len(ended[0]) > 0 and len({len(each) for each in ended}) == 1
    if same and all(_reduces(trace) for trace in traces):
        return f"backwards of {REDUCES}", ended
    return "", []


def is_met(name: str) -> bool:
    """Whether all ranks call what has this name in the same order."""
    return name.removesuffix(GOES_ON) not in ONE_TO_ONE and not name.startswith(BEGINS_FUNCTIONAL)


def _collectives(trace: Trace) -> tuple[list[str], Ends]:
    """The names of collectives that ended when they returned, in order, and their ends."""
    spans = trace.table(Span)
    names = np.array(trace.texts(spans.array("name")), object)
    waited = np.array([is_met(name) and not name.endswith(GOES_ON) for name in names], np.bool_)
    chosen = (spans.array("phase") == Phase.COLLECTIVE) & (spans.array("end") != NONE) & waited
    return names[chosen].tolist(), spans.array("end")[chosen]


def _backwards(trace: Trace) -> Ends:
    """The ends of outermost backwards."""
    tasks = trace.table(GraphTask)
    ended: Ends = tasks.array("end")[(tasks.array("parent") == NONE) & (tasks.array("end") != NONE)]
    return ended
