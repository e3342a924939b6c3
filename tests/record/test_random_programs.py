"""Whatever a program does, its trace keeps every rule and tells the graph the program had."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given

import gradscope.runtime as torch
from gradscope.record.from_runtime.c_functions.telling import Functions
from gradscope.record.from_runtime.hot.compiling import Compiling
from gradscope.record.recorder import record
from gradscope.trace import schema
from gradscope.trace.load_save import load, save
from gradscope.trace.spec import check
from gradscope.trace.trace import Trace
from tests.programs import Program, outcome, programs
from tests.shared.searching import searching


@pytest.fixture(autouse=True, scope="module", params=["in Python", "compiled"])
def noting(request: pytest.FixtureRequest) -> Iterator[None]:
    """Notes are taken in both ways; see Note [Numbers without objects]."""
    with pytest.MonkeyPatch.context() as patch:
        made = Functions() if request.param == "compiled" else None
        patch.setattr(Compiling, "functions", made)
        patch.setattr(Compiling, "_tried", True)
        yield


def recorded(program: Program) -> tuple[Trace, dict[str, object]]:
    with record() as recording:
        seen = outcome(torch, program)
    return recording.trace(), seen


@searching(20)
@given(programs())
def test_every_trace_keeps_every_rule(program: Program) -> None:
    trace, _ = recorded(program)

    assert check(trace) == []


@searching(15)
@given(programs())
def test_watching_changes_nothing_a_program_can_see(program: Program) -> None:
    alone = outcome(torch, program)
    _, seen = recorded(program)

    assert repr(seen) == repr(alone)


@searching(15)
@given(programs())
def test_a_trace_tells_the_graph_that_next_functions_shows(program: Program) -> None:
    trace, seen = recorded(program)
    told = [walked(trace, root) for root in roots_of_first_backward(trace)]
    shown = next(iter(seen["graphs"]), [])  # type: ignore[call-overload]

    if told and not any(where.startswith("run") for where, *_ in seen["errors"]):  # type: ignore[attr-defined]
        assert [graph for graph in told if graph != LEAF] == [graph for graph in shown if graph]


LEAF = [("AccumulateGrad", ())]
"""What stands below a root that is a leaf; `next_functions` shows nothing there."""


def roots_of_first_backward(trace: Trace) -> list[int]:
    tasks = sorted(trace.rows(schema.GraphTask), key=lambda task: task.begin)
    return list(tasks[0].roots) if tasks else []


def walked(trace: Trace, root: int) -> list[object]:
    """The graph below a node, in the form of tests.programs.walk."""
    edges: dict[int, list[schema.Edge]] = {}
    for edge in trace.rows(schema.Edge):
        edges.setdefault(edge.node, []).append(edge)
    names = {node.id: node.name for node in trace.rows(schema.Node)}
    numbers, order = {root: 0}, [root]
    found: list[object] = []
    for node in order:
        row = []
        for edge in sorted(edges.get(node, []), key=lambda edge: edge.index):
            if edge.next >= 0 and edge.next not in numbers:
                numbers[edge.next] = len(order)
                order.append(edge.next)
            row.append((numbers[edge.next] if edge.next >= 0 else None, edge.input_nr))
        found.append((names[node], tuple(row)))
    return found


@searching(10)
@given(programs())
def test_hooks_are_told_as_often_as_they_are_called(program: Program) -> None:
    trace, seen = recorded(program)
    kinds = Counter(event.hook for event in trace.events(schema.HookBegin))
    heard = Counter(entry[0] for entry in seen["log"])  # type: ignore[attr-defined]

    assert kinds[schema.HookKind.TENSOR] == heard["tensor"] + heard["inside"]
    assert kinds[schema.HookKind.PRE] == heard["before"]
    assert kinds[schema.HookKind.POST] == heard["after"] + heard["ran"]
    assert kinds[schema.HookKind.POST_ACCUMULATE] == heard["leaf"]
    assert kinds[schema.HookKind.PACK] == heard["pack"]
    assert kinds[schema.HookKind.UNPACK] == heard["unpack"]


@searching(10)
@given(programs())
def test_a_trace_of_a_program_survives_the_file(program: Program) -> None:
    with TemporaryDirectory() as folder:
        path, again = Path(folder) / "a.json", Path(folder) / "b.json"
        with record(path):
            outcome(torch, program)
        trace = load(path)
        save(trace, again)

        assert check(trace) == []
        assert load(again) == trace
