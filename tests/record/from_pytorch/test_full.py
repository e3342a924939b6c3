"""Level `full` on PyTorch: every call, whole stacks, and all that level `values` has."""

from __future__ import annotations

from typing import Any

import pytest

from gradscope.analysis.identity.sites import site_of
from gradscope.trace.schema import NONE, Frame, Module, Node, Op, Phase, Stack, Value
from gradscope.trace.trace import Trace
from tests.record.from_pytorch.watching import watched

pytestmark = pytest.mark.torch


def squares(x: Any) -> Any:
    return (x * x).sum()


def program() -> Any:
    import torch

    x = torch.ones(3, requires_grad=True)
    squares(x).backward()
    with torch.no_grad():
        x.grad.neg_()
        assert x.detach().cumsum(0).tolist() == [1, 2, 3]
    return x.grad


def functions(trace: Trace, stack: int) -> list[str]:
    """Of a stack, the innermost first."""
    found = []
    while stack != NONE:
        row = trace.table(Stack).row(stack)
        found.append(trace.table(Frame).row(row.frame).function)
        stack = row.parent
    return found


def test_every_call_is_told_those_that_make_no_node_too() -> None:
    _, trace = watched(program, "full")

    alone = [row for row in trace.rows(Op) if row.node == NONE]
    names = {row.name for row in alone}
    assert {"ones", "neg_", "detach", "cumsum"} <= names
    assert {"mul", "sum"} <= {row.name for row in trace.rows(Op) if row.node != NONE}
    assert all(row.begin <= row.end and row.thread != NONE for row in alone)
    lines = {row.name: site_of(trace, row.stack).text for row in alone if row.stack != NONE}
    assert lines["neg_"] == "x.grad.neg_()"
    assert lines["cumsum"] == lines["detach"] == "assert x.detach().cumsum(0).tolist() == [1, 2, 3]"
    (called,) = (row.stack for row in alone if row.name == "neg_")
    assert functions(trace, called)[0] == "program"
    assert len(functions(trace, called)) > 2
    assert "incomplete" not in " ".join(trace.notes)


def test_a_call_is_told_once() -> None:
    _, trace = watched(program, "full")

    rows = [(row.begin, row.end) for row in trace.rows(Op)]
    assert len({*rows}) == len(rows)


def test_nodes_have_whole_stacks_and_values_as_at_level_values() -> None:
    seen, whole = watched(program, "full")
    _, values = watched(program, "values")

    product = next(row for row in whole.rows(Node) if row.name == "MulBackward0")
    assert functions(whole, product.stack)[:2] == ["squares", "program"]
    assert len(functions(whole, product.stack)) > 2
    assert site_of(whole, product.stack).text == "return (x * x).sum()"
    assert seen.tolist() == [-2, -2, -2]
    assert sorted(row.norm for row in whole.rows(Value)) == sorted(
        row.norm for row in values.rows(Value)
    )
    assert whole.notes == ()


def test_a_call_that_makes_no_node_is_told_with_its_phase_backward_and_module() -> None:
    import torch

    class Scaled(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            with torch.no_grad():
                size = x.cosh()
            return x * size

    def training() -> None:
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(3, 3), Scaled())
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        model(torch.ones(2, 3)).sum().backward()
        optimizer.step()
        torch.ones(2).cosh()

    _, trace = watched(training, "full")
    told = {(row.name, Phase(row.phase), row.task) for row in trace.rows(Op) if row.node == NONE}
    modules = [trace.text(int(path)) for path in trace.table(Module)["path"]]
    inside = [row.module for row in trace.rows(Op) if row.name == "cosh"]

    assert {("mm", Phase.BACKWARD, 1), ("cosh", Phase.FORWARD, NONE)} <= told
    assert not [name for name, phase, _ in told if name == "mm" and phase is not Phase.BACKWARD]
    assert [name for name, phase, _ in told if phase is Phase.OPTIMIZER]
    assert [each if each == NONE else modules[each] for each in inside] == ["1", NONE]


def test_graphs_of_any_depth_are_found() -> None:
    import torch

    def deep() -> None:
        x = torch.ones(1, requires_grad=True)
        y = x * 2
        for _ in range(12_000):
            y = y + 1
        y.backward()

    _, trace = watched(deep, "full")

    assert len(trace.table(Node)) == 12_002
    assert trace.notes == ()
