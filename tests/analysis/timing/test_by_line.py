"""Times by line: operations, nodes created there, and the time before the calls."""

from __future__ import annotations

from gradscope.analysis.timing.by_line import timing_by_line
from gradscope.trace.schema import (
    Act,
    Frame,
    GraphTask,
    Node,
    NodeBegin,
    NodeEnd,
    Op,
    Phase,
    Row,
    Span,
    Stack,
    Step,
)
from gradscope.trace.trace import Trace
from tests.shared.by_hand import trace_of

LINES: list[Row] = [
    row for n in range(4) for row in (Frame(n, "train.py", n + 1, "", f"line {n}"), Stack(n, n))
]


def times(trace: Trace) -> dict[str, tuple[int, int, int, int]]:
    """By line: calls, and the times of operations, of backward, and between."""
    return {
        each.site.place: (each.calls, each.ops_ns, each.backward_ns, each.between_ns)
        for each in timing_by_line(trace)
    }


def test_a_line_has_its_operations_its_nodes_and_the_time_before_them() -> None:
    trace = trace_of(
        *LINES,
        Step(0, 0, begin=0, end=200),
        Node(0, "MulBackward0", stack=0),
        Op(0, "mul", begin=10, end=15, stack=0, step=0),
        Op(1, "mul", begin=40, end=45, stack=0, step=0),
        Op(2, "sum", begin=46, end=49, stack=1, step=0),
        GraphTask(0, begin=60, end=100, stack=2, step=0),
        NodeBegin(t=70, task=0, node=0),
        NodeEnd(t=90, task=0, node=0),
    )

    assert times(trace) == {
        "train.py:1": (2, 10, 20, 25),  # from 15 to 40
        "train.py:3": (1, 0, 20, 11),  # what the node does not take of the backward
        "train.py:2": (1, 3, 0, 1),
    }


def test_what_runs_inside_an_operation_is_not_counted_twice() -> None:
    trace = trace_of(
        *LINES,
        Op(0, "outer", begin=0, end=100, stack=0),
        Op(1, "inner", begin=20, end=50, stack=1),
        Op(2, "after", begin=100, end=101, stack=2),
    )

    assert times(trace) == {
        "train.py:1": (1, 70, 0, 0),
        "train.py:2": (1, 30, 0, 0),
        "train.py:3": (1, 1, 0, 0),
    }


def test_optimizers_and_data_loaders_have_their_names_and_work_of_gradscope_has_no_row() -> None:
    trace = trace_of(
        *LINES,
        Op(0, "mul", begin=0, end=10, stack=0),
        Span(0, "SGD.step", Phase.OPTIMIZER, begin=30, end=70),
        Op(1, "add_", begin=40, end=45, stack=1, phase=Phase.OPTIMIZER),
        Span(1, "gradscope compiles mul", Phase.OWN_WORK, begin=72, end=90),
        Span(2, "DataLoader", Phase.USER, begin=95, end=195),
        Span(3, "epoch", Phase.USER, begin=0, end=400),
        Op(2, "stack", begin=100, end=130, stack=2),
        Op(3, "mul", begin=200, end=201, stack=0),
    )

    assert times(trace) == {
        "DataLoader": (1, 70, 0, 7),  # 70 to 95 without 72 to 90
        "SGD.step": (1, 35, 0, 20),
        "train.py:3": (1, 30, 0, 0),
        "train.py:1": (2, 11, 0, 5),
        "train.py:2": (1, 5, 0, 0),
    }


def test_a_call_without_an_operation_has_the_time_before_it() -> None:
    """`tolist()` creates no node, and PyTorch's calls without a node are not recorded."""
    trace = trace_of(
        *LINES,
        Op(0, "mul", begin=0, end=10, stack=0),
        Act(0, "item", stack=3, t=500),
    )

    assert times(trace) == {"train.py:4": (0, 0, 0, 490), "train.py:1": (1, 10, 0, 0)}


def test_threads_and_steps_that_were_not_recorded_leave_no_gap() -> None:
    trace = trace_of(
        *LINES,
        Step(0, 0, begin=0, end=10),
        Step(1, 9, begin=900, end=990),
        Op(0, "mul", begin=0, end=10, stack=0, step=0, thread=0),
        Op(1, "add", begin=905, end=910, stack=1, step=1, thread=0),
        Op(2, "sub", begin=950, end=955, stack=2, step=1, thread=1),
    )

    assert times(trace) == {
        "train.py:1": (1, 10, 0, 0),
        "train.py:2": (1, 5, 0, 0),
        "train.py:3": (1, 5, 0, 0),
    }


def test_a_trace_without_calls_has_no_lines() -> None:
    assert timing_by_line(trace_of()) == ()
