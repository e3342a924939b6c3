"""The cost of each piece of a program compared to its limit (roofline), in words."""

from __future__ import annotations

from collections.abc import Iterator

from gradscope.analysis.answers.roofline import Cost, Peaks, Roofline, roofline
from gradscope.analysis.identity.sites import at
from gradscope.scene.answers.answer import Answer, Topic, filled
from gradscope.scene.readable import count, duration
from gradscope.trace.trace import Trace

LETTERS = "abcdefghijklmnopqrstuvwxyz"
"""Letters of the longest pieces in the plot."""
COUNTED = (
    "bytes: inputs and outputs of calls and nodes, each counted once; operations: inferred from "
    "shapes; times: recorded, and shared out in fused pieces. More than 100%: the arrays stayed in "
    "a cache, or the machine was busier when its limits were measured. Inputs that were not "
    "recorded (on PyTorch, those that need no gradient) are not counted"
)


def costs(trace: Trace, peaks: Peaks) -> Answer:
    """All pieces, the longest first."""
    found = roofline(trace, peaks)
    if not found.costs:
        return Answer("No times of calls or nodes were recorded.", data=found)
    whole = sum(cost.typical_ns for cost in found.costs) or 1
    at_limit = sum(cost.limit_ns(peaks) for cost in found.costs)
    title = (
        f"Calls and nodes take {duration(whole)} (medians). At the machine's limits (roofline) "
        f"they would take {duration(int(at_limit))} ({at_limit / whole:.0%})."
    )
    lines = tuple(_line(nr, cost, whole, peaks) for nr, cost in enumerate(found.costs))
    gains = sorted(found.costs, key=lambda cost: cost.limit_ns(peaks) - cost.typical_ns)
    notes = (COUNTED, *_elsewhere(found))
    sections = filled(
        Topic("pieces, longest first", lines),
        Topic("farthest above their limit", tuple(_gain(cost, peaks) for cost in gains[:8])),
    )
    return Answer(title, tuple(_facts(peaks)), sections, notes, found)


def _facts(peaks: Peaks) -> Iterator[tuple[str, str]]:
    threads = f"{peaks.threads} thread{'s' * (peaks.threads != 1)}"
    yield "machine", f"{peaks.processor}, {threads}; measured now on {peaks.host}"
    yield "arithmetic", f"{rate(peaks.flops, 'flop')} (best product of two float32 matrices)"
    yield "memory", f"{rate(peaks.bandwidth, 'B')} (best copy of 64 MiB, reads and writes)"
    yield "ridge point", f"{peaks.flops / peaks.bandwidth:.1f} flop/B"


def rate(value: float, unit: str) -> str:
    """As in "98.5 Gflop/s"."""
    for size, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M")):
        if value >= size:
            return f"{value / size:.3g} {prefix}{unit}/s"
    return f"{value:.3g} {unit}/s"


def _line(nr: int, cost: Cost, whole: int, peaks: Peaks) -> str:
    letter = f"{LETTERS[nr]} " if nr < len(LETTERS) else ""
    times = f" ×{count(cost.count)}" if cost.count > 1 else ""
    first = ""
    if cost.ns > 2 * cost.typical_ns:
        first = f" (and {duration(cost.ns - cost.typical_ns)} more in unusually slow runs)"
    typical = cost.typical_ns
    told = f"{letter}{duration(typical)} ({typical / whole:.0%}) {cost.name}{at(cost.site)}{times}"
    told += first
    if not cost.bytes:
        return f"{told}: moves no data"
    seconds = max(cost.typical_ns, 1) / 1e9
    bound = "memory" if cost.is_bound_by_memory(peaks) else "arithmetic"
    share = cost.limit_ns(peaks) / max(cost.typical_ns, 1)
    return (
        f"{told}: {rate(cost.flops / seconds, 'flop')}, {rate(cost.bytes / seconds, 'B')}, "
        f"{cost.intensity:.2g} flop/B; {share:.0%} of its limit ({bound})"
    )


def _gain(cost: Cost, peaks: Peaks) -> str:
    above = cost.typical_ns - int(cost.limit_ns(peaks))
    return f"{duration(above)} above its limit: {cost.name}{at(cost.site)}"


def _elsewhere(found: Roofline) -> tuple[str, ...]:
    if found.recorded_on in ("", found.peaks.host):
        return ()
    here = found.peaks.host
    return (f"recorded on {found.recorded_on}, but the limits are those of this machine, {here}",)
