"""Where findings are: the nodes, steps and functions of what they refer to."""

from __future__ import annotations

from typing import Any

import pytest

from gradscope.analysis.findings import Evidence, Finding, Severity
from gradscope.analysis.identity.found_at import located, nodes_of
from gradscope.analysis.identity.sites import Site
from gradscope.trace.schema import (
    Frame,
    GraphTask,
    Node,
    NodeBegin,
    Op,
    Saved,
    Span,
    Step,
    Tensor,
)
from gradscope.trace.trace import Trace
from tests.shared.by_hand import trace_of


def two_steps(*more: Any) -> Trace:
    return trace_of(
        Frame(0, "net.py", 4, "Head.forward", "y = self.out(x)"),
        Frame(1, "net.py", 9, "<module>", "loss.backward()"),
        Frame(2, "net.py", 12, "main.<locals>.Net.forward", "z"),
        Frame(3, "net.py", 15, "one", "w"),
        Frame(4, "net.py", 15, "another", "w"),
        Step(0, 5, begin=0, end=10),
        Step(1, 6, begin=10, end=20),
        Tensor(0),
        Tensor(1),
        Node(0, "MulBackward0", step=0),
        Node(1, "AddBackward0", step=1, inputs=(0,)),
        Op(0, "mul", node=0, step=0),
        Op(1, "add", node=1, step=1),
        Saved(0, 1, "self", tensor=1),
        GraphTask(0, roots=(0,), step=0, begin=2, end=3),
        GraphTask(1, roots=(1,), step=1, begin=12, end=13),
        NodeBegin(0, t=2, node=0, task=0),
        NodeBegin(1, t=12, node=1, task=1),
        *more,
    )


def found(*rows: tuple[str, int], line: int = 4) -> Finding:
    site = Site(f"net.py:{line}", "", "net.py", line)
    evidence = tuple(Evidence(table, id) for table, id in rows)
    return Finding("GS1", "test", Severity.ERROR, "", site, evidence, "", "")


@pytest.mark.parametrize(
    ("row", "steps"),
    [
        (("node", 0), (5,)),
        (("node", 1), (6,)),
        (("op", 1), (6,)),
        (("graph_task", 1), (6,)),
        (("event.node_begin", 1), (6,)),
        (("saved", 0), (6,)),
        (("step", 0), (5,)),
        (("node", 99), ()),
        (("event.node_begin", 99), ()),
        (("thread", 0), ()),
    ],
)
def test_the_step_is_that_of_the_row_or_of_what_it_refers_to(
    row: tuple[str, int], steps: tuple[int, ...]
) -> None:
    assert located(two_steps(), found(row)).steps == steps


def test_evidence_of_two_steps_has_both() -> None:
    assert located(two_steps(), found(("node", 1), ("op", 0))).steps == (5, 6)


def test_a_trace_of_one_step_names_none() -> None:
    trace = trace_of(Step(0, 0, begin=0, end=9), Node(0, "MulBackward0", step=0))

    assert located(trace, found(("node", 0))).steps == ()


@pytest.mark.parametrize(
    ("line", "function"), [(4, "Head.forward"), (9, ""), (12, "Net.forward"), (15, ""), (99, "")]
)
def test_the_function_is_that_of_the_line_where_there_is_one(line: int, function: str) -> None:
    assert located(two_steps(), found(line=line)).function == function


def test_the_nodes_of_evidence_come_before_those_of_its_tensors() -> None:
    rows = (Evidence("tensor", 0), Evidence("tensor", 1), Evidence("node", 0), Evidence("node", 7))

    assert list(nodes_of(two_steps(), rows)) == [0, 1, 1]


def test_a_span_has_no_node() -> None:
    assert list(nodes_of(two_steps(Span(0, "load", begin=1, end=2)), [Evidence("span", 0)])) == []
