"""Numbers of backwards: counted from 0 in the order in which they started.

They differ from the ids of graph tasks, which share a counter with other rows.
"""

from __future__ import annotations

from collections.abc import Collection

from gradscope.errors import UnknownNameError
from gradscope.trace.schema import GraphTask
from gradscope.trace.trace import Trace


def backwards(trace: Trace, steps: Collection[int] | None = None) -> tuple[GraphTask, ...]:
    """The graph tasks in the order in which they started: all, or those of some steps."""
    tasks = trace.once(_in_order)
    return tasks if steps is None else tuple(task for task in tasks if task.step in steps)


def _in_order(trace: Trace) -> tuple[GraphTask, ...]:
    return tuple(sorted(trace.rows(GraphTask), key=lambda task: (task.begin, task.id)))


def backward_numbers(trace: Trace) -> dict[int, int]:
    """The number of each graph task, by its id."""
    return {task.id: number for number, task in enumerate(backwards(trace))}


def backward_numbered(trace: Trace, number: int) -> GraphTask:
    known = backwards(trace)
    if not 0 <= number < len(known):
        has = f"its backwards are 0 to {len(known) - 1}" if known else "it has none"
        raise UnknownNameError(f"this trace has no backward {number}: {has}")
    return known[number]
