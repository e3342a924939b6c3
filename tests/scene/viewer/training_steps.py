"""A training of several steps by hand: loading, modules, calls, an optimizer and two threads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from gradscope.trace.schema import (
    NONE,
    Edge,
    GraphTask,
    HookBegin,
    HookEnd,
    Module,
    Node,
    NodeBegin,
    NodeEnd,
    Op,
    Phase,
    Row,
    Span,
    Step,
    TaskBegin,
    TaskEnd,
    Tensor,
    Thread,
)
from gradscope.trace.trace import Trace
from tests.shared.by_hand import trace_of

STEP_NS = 1_000_000
CALLS = (("addmm", 2, 150, 250), ("relu", 1, 260, 280), ("addmm", 3, 300, 400))
"""Name, module, begin and end in microseconds of the step."""
RUNS = ((2, 0, 520, 600), (1, 0, 610, 640), (0, 1, 650, 780))
"""Number of the call that made the node, thread, begin and end."""


def training_steps(steps: int, *, events: bool = True, ended: bool = True) -> Trace:
    """Steps of a millisecond each. `events`: with those of the engine. `ended`: the steps are."""
    rows: list[Row] = [Thread(0, "main"), Thread(1, "device")]
    rows += [
        Module(0, "", "Net"),
        Module(1, "encoder", "Block", parent=0),
        Module(2, "encoder.linear", "Linear", parent=1),
        Module(3, "head", "Linear", parent=0),
    ]
    rows.append(Op(900, "uniform_", begin=-700_000 + STEP_NS, end=-690_000 + STEP_NS, thread=0))
    for step in range(steps):
        rows += _step(step, STEP_NS * (step + 1), events=events)
    if not ended:
        rows = [replace(row, end=NONE) if isinstance(row, Step) else row for row in rows]
    return trace_of(*rows)


def _step(step: int, start: int, *, events: bool) -> Iterator[Row]:
    def at(microseconds: int) -> int:
        return start + 1_000 * microseconds

    yield Step(step, step, 0 if step == 0 else start, start + STEP_NS)
    yield Span(2 * step, "DataLoader", thread=0, step=step, begin=at(10), end=at(110))
    optimizer = {"thread": 0, "step": step, "phase": Phase.OPTIMIZER}
    yield Span(2 * step + 1, "SGD.step", begin=at(850), end=at(950), **optimizer)
    yield Op(1_000 + step, "add_", begin=at(860), end=at(880), **optimizer)
    for number, (name, module, begin, end) in enumerate(CALLS):
        id = 3 * step + number
        of = {"module": module, "step": step, "thread": 0}
        inputs = (3_000 if number == 0 else 2_000 + id - 1,)
        yield Tensor(2_000 + id, shape=(4, 4), dtype="float32", op=id)
        yield Op(id, name, "", at(begin), at(end), inputs, (2_000 + id,), node=id, **of)
        title = f"{name.capitalize()}Backward0"
        yield Node(id, title, op=id, inputs=(2_000 + id,), t=at(end), **of)
        if number:
            yield Edge(id, 0, id - 1)
    run = {"step": step, "thread": 0}
    yield GraphTask(step, roots=(3 * step + 2,), begin=at(500), end=at(800), **run)
    if events:
        yield from _events(step, at(0))


def _events(step: int, start: int) -> Iterator[Row]:
    yield TaskBegin(t=start + 500_000, task=step, thread=0)
    for number, thread, begin, end in RUNS:
        of = {"node": 3 * step + number, "task": step, "thread": thread}
        yield NodeBegin(t=start + 1_000 * begin, **of)
        if number == 1:
            yield HookBegin(t=start + 1_000 * (begin + 5), name="clip", **of)
            yield HookEnd(t=start + 1_000 * (begin + 15), **of)
        yield NodeEnd(t=start + 1_000 * end, **of)
    yield TaskEnd(t=start + 800_000, task=step, thread=0)
