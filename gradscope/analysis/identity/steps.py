"""What counts as a training step: the one definition that every view and limit goes by.

A step ends where an optimizer has made its step, or where the program says `gradscope.step()`.
Where it does neither, each outermost backward that is called again and again (in a loop, or from a
line that did so before) has a step of its own, with what the program does with the gradients up to
the next forward. What comes after the last step is one, too, if a backward began in it; evaluation
and clean-up after training are not. Steps that were left out of the recording (`--steps`,
`--max-events`) keep their numbers, and are not counted among those that the trace holds.
"""

from __future__ import annotations

import numpy as np

from gradscope.errors import UnknownNameError
from gradscope.trace.schema import GraphTask, Node, Op, Phase, Span, Step
from gradscope.trace.trace import Trace


def steps(trace: Trace) -> tuple[Step, ...]:
    """The steps that the trace holds something of, in the order in which they began."""
    table = trace.table(Step)
    rows = table.take(np.lexsort((table["id"], table["begin"])))
    with_backward = _used(trace, GraphTask)
    if len(rows) > 1 and rows[-1].id not in with_backward and _is_complete(trace, rows[-2]):
        rows = rows[:-1]
    used = with_backward | _used(trace, Op) | _used(trace, Node)
    return tuple(row for row in rows if row.id in used)


def _is_complete(trace: Trace, step: Step) -> bool:
    """Whether an optimizer ended this step, or in the absence of one a backward."""
    if trace.meta.get("steps_end_with"):
        return True
    spans = trace.table(Span)
    return bool(np.any((spans["step"] == step.id) & (spans["phase"] == Phase.OPTIMIZER)))


def _used(trace: Trace, kind: type[GraphTask | Op | Node]) -> set[int]:
    """The ids of the steps that some row names."""
    return set(trace.table(kind)["step"].tolist())


def step_numbers(trace: Trace) -> dict[int, int]:
    """Step id → the number its owner gave it, of all steps that were begun."""
    table = trace.table(Step)
    return dict(zip(table["id"].tolist(), table["number"].tolist(), strict=True))


def step_ids(trace: Trace, number: int) -> list[int]:
    known = steps(trace)
    found = [step.id for step in known if step.number == number]
    if not found:
        numbers = sorted(step.number for step in known)
        has = f"its steps are {numbers[0]} to {numbers[-1]}" if numbers else "it has no steps"
        raise UnknownNameError(f"this trace has no step {number}: {has}")
    return found
