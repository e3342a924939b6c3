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
    notes = [f"inferred from the engine's rules, which predict the recorded order of nodes: {what}"]
    if lost := trace.once(_lost):
        why = "whose recorded order differs from the engine's rules"
        notes.append(f"not known for {_named(lost)}, {why}: {what}")
    return tuple(notes)


def not_added_up(trace: Trace) -> tuple[str, ...]:
    """A note on backwards of which it is not known which gradients were added."""
    lost = trace.once(_other_sums)
    if not lost:
        return ()
    return (f"not known for {_named(lost)}, with None among the gradients: which were added",)


def _named(backwards: list[int]) -> str:
    shown = ", ".join(map(str, backwards[:FEW])) + ", …" * (len(backwards) > FEW)
    noun = "backward" if len(backwards) == 1 else "backwards"
    return f"{plural(len(backwards), 'backward')} ({noun} {shown})"


def _lost(trace: Trace) -> list[int]:
    """Numbers of the backwards whose order differs from the engine's rules."""
    return _with_order(trace, {Order.OTHERWISE, Order.NOT_SEEN})


def _other_sums(trace: Trace) -> list[int]:
    """Numbers of the backwards with fewer additions than the engine's rules predict."""
    return _with_order(trace, {Order.NOT_THE_SUMS})


def _with_order(trace: Trace, orders: set[Order]) -> list[int]:
    numbers = backward_numbers(trace)
    return sorted(numbers[task.id] for task in trace.rows(GraphTask) if task.order in orders)
