from __future__ import annotations

from gradscope.analysis.timing.by_step import StepFacts, step_facts
from gradscope.analysis.timing.durations import ns_of_ops
from gradscope.analysis.timing.phases import ProgramPart
from gradscope.trace.schema import NONE, GraphTask, Node, Op, Phase, Span, Step, Thread
from gradscope.trace.trace import Trace
from tests.shared.by_hand import trace_of


def two_steps() -> Trace:
    optimizer = {"phase": Phase.OPTIMIZER, "thread": 0}
    return trace_of(
        Thread(0),
        Step(0, 0, begin=0, end=100),
        Step(1, 1, begin=100),
        Op(0, "outer", begin=10, end=30, thread=0, step=0, module=4),
        Op(1, "inner", begin=12, end=20, thread=0, step=0, module=5),
        Op(2, "add_", begin=80, end=90, step=0, **optimizer),
        Op(3, "mul", begin=110, end=115, thread=0, step=1, module=4),
        Op(4, "hook", begin=45, end=46, thread=0, step=0, task=0, module=4),
        Node(0, "MulBackward0", step=0),
        Node(1, "MulBackward0", step=1),
        Node(2, "AddBackward0", step=0),
        GraphTask(0, begin=40, end=60, thread=0, step=0),
        GraphTask(1, begin=42, end=50, thread=0, step=0, parent=0),
        GraphTask(2, begin=61, end=70, thread=0, step=0),
        GraphTask(3, begin=120, thread=0, step=1),
        Span(1, "SGD", phase=Phase.OPTIMIZER, begin=120, end=127, thread=0, step=1),
        Span(0, "compiles", phase=Phase.OWN_WORK, begin=62, end=66, thread=0),
    )


def test_each_step_has_its_parts_without_what_lies_inside_them_or_is_gradscopes() -> None:
    assert step_facts(two_steps()) == (
        StepFacts(0, 2, 2, forward_ns=20, backward_ns=25, optimizer_ns=10, ns=96),
        StepFacts(1, 1, 1, forward_ns=5, backward_ns=0, optimizer_ns=7, ns=NONE),
    )


def test_time_in_operations_of_a_module_is_its_own() -> None:
    assert ns_of_ops(two_steps(), ProgramPart.FORWARD, "module") == {4: 17, 5: 8}
