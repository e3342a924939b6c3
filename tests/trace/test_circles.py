"""Rows of a file that name each other in a circle: each is met once, and what walks them ends."""

from __future__ import annotations

from gradscope.analysis.answers.captured import captured, whole_of
from gradscope.analysis.program.acts import stacks_of
from gradscope.analysis.report import inspect
from gradscope.debug.dap.stack import levels
from gradscope.debug.walk import Walk
from gradscope.trace.schema import (
    Act,
    CapturedStep,
    Frame,
    GraphTask,
    Module,
    Node,
    NodeBegin,
    Op,
    OptimizerAct,
    Stack,
    Tensor,
    Thread,
)
from tests.shared.by_hand import trace_of


def test_a_chain_ends_where_it_closes_and_where_a_row_is_missing() -> None:
    modules = trace_of(
        Module(1, "a", parent=2), Module(2, "b", parent=1), Module(3, "c", parent=9)
    ).table(Module)

    assert [row.id for row in modules.chain(1, "parent")] == [1, 2]
    assert [row.id for row in modules.chain(3, "parent")] == [3]
    assert [*modules.chain(7, "parent")] == []


def test_every_walk_of_a_circle_ends() -> None:
    here = {"thread": 0, "task": 0}
    trace = trace_of(
        Frame(0, "train.py", 3, "step", "loss.backward()"),
        *(Stack(id, frame=0, parent=1 - id) for id in range(2)),
        *(Module(id, f"m{id}", "Linear", parent=1 - id, parameters=(0,)) for id in range(2)),
        *(GraphTask(id, roots=(0,), parent=1 - id, stack=0, end=9) for id in range(2)),
        *(CapturedStep(id, f"step {id}", whole=1 - id) for id in range(2)),
        Thread(0, "main"),
        Tensor(0, (2,), leaf=True, requires_grad=True),
        Node(0, "AccumulateGrad", inputs=(0,), module=0, stack=0),
        Op(0, "mul", outputs=(0,), module=0, stack=0, thread=0, end=9),
        NodeBegin(node=0, t=1, **here),
        Act(0, "optimizer", tensors=(0,), module=0, stack=0),
        OptimizerAct(0, type="SGD"),
        Act(1, "step", of=0, stack=0),
        meta={"level": "engine"},
    )
    steps = captured(trace)

    assert [*stacks_of(trace, 1)] == [1, 0]
    assert len(trace.frames(0)) == 2
    assert [whole_of(step, steps).id for step in steps] == [1, 0]
    assert inspect(trace).faults == ()
    walk = Walk(trace)
    names = {level.name for moment in range(walk.last) for level in levels(walk.at(moment), 0)}
    assert "module m1 (Linear)" in names
