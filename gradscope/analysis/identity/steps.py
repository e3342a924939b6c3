"""The definition of a training step, which all views and limits use.

A step ends after an optimizer's step, or where the program calls `gradscope.step()`. Without
either, each outermost backward that is called repeatedly (in a loop, or from a line that did so
before) is a step, which includes what the program does with the gradients until the next forward.
What follows the last step is a step too, if a backward started in it; evaluation and clean-up
after training are not. Steps that were not recorded (`--steps`, `--max-events`) keep their numbers,
and are not counted as steps of the trace.
"""

from __future__ import annotations

import numpy as np

from gradscope.errors import UnknownNameError
from gradscope.trace.schema import GraphTask, Node, Op, Phase, Span, Step
from gradscope.trace.trace import Trace


def steps(trace: Trace) -> tuple[Step, ...]:
    """The steps with recorded contents, in the order in which they started."""
    table = trace.table(Step)
    rows = table.take(np.lexsort((table["id"], table["begin"])))
    with_backward = _used(trace, GraphTask)
    if len(rows) > 1 and rows[-1].id not in with_backward and _is_complete(trace, rows[-2]):
        rows = rows[:-1]
    used = with_backward | _used(trace, Op) | _used(trace, Node)
    return tuple(row for row in rows if row.id in used)


def _is_complete(trace: Trace, step: Step) -> bool:
    """Whether this step was ended by an optimizer, or without one by a backward."""
    if trace.meta.get("steps_end_with"):
        return True
    spans = trace.table(Span)
    return bool(np.any((spans["step"] == step.id) & (spans["phase"] == Phase.OPTIMIZER)))


def _used(trace: Trace, kind: type[GraphTask | Op | Node]) -> set[int]:
    """The ids of the steps that rows refer to."""
    return set(trace.table(kind)["step"].tolist())


def step_numbers(trace: Trace) -> dict[int, int]:
    """The numbers of all started steps, by id."""
    table = trace.table(Step)
    return dict(zip(table["id"].tolist(), table["number"].tolist(), strict=True))


def step_ids(trace: Trace, number: int, until: int | None = None) -> list[int]:
    """The ids of the step with this number; `until`: of the steps up to that one."""
    known = steps(trace)
    last = number if until is None else until
    found = [step.id for step in known if number <= step.number <= last]
    if not found:
        numbers = sorted(step.number for step in known)
        has = f"its steps are {numbers[0]} to {numbers[-1]}" if numbers else "it has no steps"
        raise UnknownNameError(f"this trace has no step {number}: {has}")
    return found
