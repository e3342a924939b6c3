"""How the clocks of ranks stand to one another, and how that is known.

Ranks of one machine share its clock. Clocks of several machines differ by milliseconds; but a
backward of DistributedDataParallel ends on all ranks when the last gradient has been reduced, so
its ends, matched one by one, say by how much. Where there are none, the machines' clocks are taken
at their word.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradscope.trace.schema import NONE, GraphTask, Module
from gradscope.trace.trace import Trace

REDUCES = "DistributedDataParallel"


@dataclass(frozen=True, slots=True)
class Clocks:
    """Of each rank, by how many ns its times come later than those of the earliest clock base."""

    shifts: tuple[int, ...]
    base: int  # of all: ns since the epoch
    words: str  # how that is known


def clocks(traces: Sequence[Trace]) -> Clocks:
    """One clock for all: that of the first trace."""
    bases = [_number(trace.meta.get("clock_base")) for trace in traces]
    if len({trace.meta.get("host") for trace in traces}) == 1:
        return _from(bases, "ranks ran on one machine and share its clock")
    ends = [_ends(trace) + base for trace, base in zip(traces, bases, strict=True)]
    together = all(_reduces(trace) for trace in traces) and len({len(each) for each in ends}) == 1
    if not together or not len(ends[0]):
        return _from(bases, "by the clocks of several machines, which may differ")
    late = [np.round(np.median(each - ends[0])).astype(int).item() for each in ends]
    apart = max(
        np.abs(each - ends[0] - by).max().item() for each, by in zip(ends, late, strict=True)
    )
    return _from(
        [base - by for base, by in zip(bases, late, strict=True)],
        f"by the ends of {len(ends[0])} backwards of {REDUCES}, which ranks end together "
        f"(at most {apart / 1e6:.3g} ms apart)",
    )


def _from(bases: Sequence[int], words: str) -> Clocks:
    first = min(bases)
    return Clocks(tuple(base - first for base in bases), first, words)


def _number(value: Any) -> int:
    return value if type(value) is int else 0


def _reduces(trace: Trace) -> bool:
    return REDUCES in trace.texts(trace.table(Module)["type"])


def _ends(trace: Trace) -> NDArray[np.int64]:
    """When outermost backwards ended."""
    tasks = trace.table(GraphTask)
    ended: NDArray[np.int64] = tasks.array("end")[
        (tasks.array("parent") == NONE) & (tasks.array("end") != NONE)
    ]
    return ended
