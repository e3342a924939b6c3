"""What an answer lacks since it was not recorded, or was inferred, in a sentence each."""

from __future__ import annotations

from gradscope.analysis.identity.backwards import backward_numbers
from gradscope.analysis.rules.registry import LEVELS
from gradscope.scene.readable import plural
from gradscope.trace.schema import GraphTask, Order
from gradscope.trace.trace import Trace

FEW = 4


def not_at_level(trace: Trace, needs: str, what: str) -> tuple[str, ...]:
    """As in "norms: not recorded at level engine: trace again with --level values"."""
    level = trace.meta.get("level")
    if level not in LEVELS or LEVELS.index(level) >= LEVELS.index(needs):
        return ()
    return (f"{what}: not recorded at level {level}: trace again with --level {needs}",)


def inferred(trace: Trace, kind: str, what: str) -> tuple[str, ...]:
    """Whether events of this kind were inferred, and where they could not be."""
    if kind not in trace.meta.get("inferred", ()):
        return ()
    lost = trace.once(_lost)
    notes = [f"{what}: inferred, by replaying the engine's rules, which foretold the order seen"]
    if lost:
        shown = ", ".join(map(str, lost[:FEW])) + ", …" * (len(lost) > FEW)
        noun = "backward" if len(lost) == 1 else "backwards"
        notes.append(
            f"{what}: not known of {plural(len(lost), 'backward')} ({noun} {shown}), which went "
            "otherwise than the rules foretell"
        )
    return tuple(notes)


def _lost(trace: Trace) -> list[int]:
    """The backwards that no replay of the rules gives."""
    numbers = backward_numbers(trace)
    return sorted(
        numbers[task.id]
        for task in trace.rows(GraphTask)
        if task.order in (Order.OTHERWISE, Order.NOT_THE_SUMS, Order.NOT_SEEN)
    )
