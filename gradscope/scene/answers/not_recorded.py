"""Notes about what was inferred or not recorded, a sentence each."""

from __future__ import annotations

from gradscope.analysis.identity.backwards import backward_numbers
from gradscope.analysis.rules.registry import LEVELS
from gradscope.scene.readable import plural
from gradscope.trace.schema import GraphTask, Order
from gradscope.trace.trace import Trace

FEW = 4


def not_at_level(trace: Trace, needs: str, what: str) -> tuple[str, ...]:
    """As in "not recorded at level engine: norms; use --level values"."""
    level = trace.meta.get("level")
    if level not in LEVELS or LEVELS.index(level) >= LEVELS.index(needs):
        return ()
    return (f"not recorded at level {level}: {what}; use --level {needs}",)


def inferred(trace: Trace, kind: str, what: str) -> tuple[str, ...]:
    """Notes on events of this kind that were inferred, or could not be."""
    if kind not in trace.meta.get("inferred", ()):
        return ()
    lost = trace.once(_lost)
    notes = [f"inferred from the engine's rules, which predict the recorded order of nodes: {what}"]
    if lost:
        shown = ", ".join(map(str, lost[:FEW])) + ", …" * (len(lost) > FEW)
        noun = "backward" if len(lost) == 1 else "backwards"
        notes.append(
            f"not known for {plural(len(lost), 'backward')} ({noun} {shown}), whose recorded order "
            f"differs from the engine's rules: {what}"
        )
    return tuple(notes)


def _lost(trace: Trace) -> list[int]:
    """Numbers of the backwards whose order differs from the engine's rules."""
    numbers = backward_numbers(trace)
    return sorted(
        numbers[task.id]
        for task in trace.rows(GraphTask)
        if task.order in (Order.OTHERWISE, Order.NOT_THE_SUMS, Order.NOT_SEEN)
    )
