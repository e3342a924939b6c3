"""A program is recorded alike with machine code and with PyTorch's public API only."""

from __future__ import annotations

import difflib
from typing import Any

import pytest
from hypothesis import given

from gradscope.analysis.report import inspect
from gradscope.trace.schema import (
    NONE,
    BufferAdded,
    BufferMade,
    Decrement,
    GraphTask,
    Node,
    Order,
    Place,
    Pop,
    Push,
    Value,
)
from gradscope.trace.spec import check
from gradscope.trace.trace import Trace
from tests.analysis.likeness.engines import lines, on_pytorch
from tests.analysis.likeness.test_random_programs import told
from tests.programs import Program, outcome, programs
from tests.programs.ordinary import ROOMS, programs_of
from tests.shared.searching import searching

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]


def on_both_layers(program: Any, level: str = "engine") -> tuple[Trace, Trace]:
    """The traces of a program with machine code, and with PyTorch's public API only."""
    native, public = (on_pytorch(program, level, native=native) for native in (True, False))
    assert "no_machine_code" in public.meta
    return native, public


def found_only_in(public: Trace, native: Trace) -> set[str]:
    """Rules with findings without machine code only.

    What wrote to a value that a backward needed is only recorded with machine code: otherwise the
    finding is the error.
    """
    one, other = ({found.rule for found in inspect(trace).findings} for trace in (public, native))
    return one - other - ({"GS301"} if "GS302" in other else set())


@pytest.mark.parametrize("room", ROOMS)
def test_a_program_is_recorded_alike_with_and_without_machine_code(room: str) -> None:
    differ = {}
    for program in programs_of(room):
        native, public = on_both_layers(program)
        one, other = lines(native, public), lines(public, native)
        if one != other:
            found = difflib.unified_diff(one[:5000], other[:5000], lineterm="", n=2)
            differ[program.__name__] = list(found)[2:30]
        assert public.notes == native.notes
        assert found_only_in(public, native) == set(), program.__name__

    assert differ == {}


@searching(20)
@given(programs())
def test_a_random_program_is_recorded_alike_with_and_without_machine_code(program: Program) -> None:
    native, public = on_both_layers(lambda torch: outcome(torch, program))

    assert [*told(lines(public, native))] == [*told(lines(native, public))]
    assert public.notes == native.notes
    assert found_only_in(public, native) == set()


def backward_from_several_roots(torch: Any) -> None:
    x = torch.ones(3, requires_grad=True)
    y = x.sin()
    torch.autograd.backward([y.sum(), y.cos().sum()])
    y = x.sin()
    torch.autograd.grad([y.sum(), y.cos().sum()], [x])


def several_roots_with_hooks(torch: Any) -> None:
    x = torch.ones(3, requires_grad=True)
    y = x.sin()
    z = y.cos()
    z.register_hook(lambda _: None)
    z.grad_fn.register_prehook(lambda _: None)
    z.grad_fn.register_hook(lambda _, __: None)
    torch.autograd.backward([y.sum(), z.sum()])
    y = x.sin()
    y.grad_fn.register_prehook(lambda _: None)
    torch.autograd.backward([y], [torch.ones(3)], inputs=[x])
    torch.autograd.backward([y.detach().requires_grad_() * 2, x.cos()], [torch.ones(3)] * 2)


def hooks_of_a_node_that_has_run(torch: Any) -> None:
    x = torch.ones(3, requires_grad=True)
    y = x.sin()
    loss = y.cos().sum()
    loss.backward(retain_graph=True)
    node, leaf = y.grad_fn, y.grad_fn.next_functions[0][0]
    node.register_prehook(lambda grads: tuple(grad * 2 for grad in grads))
    y.register_hook(lambda grad: grad * 2)
    node.register_hook(lambda _, __: None)
    node.register_hook(lambda made, _: tuple(grad * 2 for grad in made))
    leaf.register_prehook(lambda _: None)
    leaf.register_hook(lambda _, __: None)
    loss.backward(retain_graph=True)
    leaf.register_hook(lambda _, __: None)
    loss.backward()


def a_hook_that_raises_before_a_node_that_has_run(torch: Any) -> None:
    def fails(_: Any) -> None:
        raise ValueError("fails")

    x = torch.ones(3, requires_grad=True)
    y = x.sin()
    loss = y.cos().sum()
    loss.backward(retain_graph=True)
    y.grad_fn.register_prehook(fails)
    with pytest.raises(ValueError, match="fails"):
        loss.backward()


def a_penalty_on_a_gradient(torch: Any) -> None:
    x = torch.linspace(0, 1, 6).reshape(2, 3).requires_grad_()
    y = torch.nn.Linear(3, 1)(torch.nn.LayerNorm(3)(x)).sum()
    (grad,) = torch.autograd.grad(y, x, create_graph=True)
    (y + (grad.norm() - 1) ** 2).backward()


def a_slope_of_a_convolution(torch: Any) -> None:
    x = torch.linspace(0, 1, 16).reshape(1, 1, 4, 4).requires_grad_()
    y = torch.nn.Conv2d(1, 1, 3)(x).tanh().sum()
    (grad,) = torch.autograd.grad(y, x, create_graph=True)
    grad.pow(2).sum().backward()


@pytest.mark.parametrize("level", ["engine", "values"])
@pytest.mark.parametrize("program", [a_penalty_on_a_gradient, a_slope_of_a_convolution])
def test_nodes_are_recorded_although_some_gradients_are_none(program: Any, level: str) -> None:
    native, public = on_both_layers(program, level)

    assert engine_lines(public, native) == engine_lines(native, public)
    for trace in (native, public):
        assert (trace.notes, check(trace)) == ((), [])
        first, second = trace.rows(GraphTask)
        assert (first.order, second.order) == (Order.FORETOLD, Order.NOT_THE_SUMS)
        pushed, popped = ([row.node for row in trace.events(kind, task=second.id)]
                          for kind in (Push, Pop))  # fmt: skip
        assert len(pushed) > 5
        assert sorted(pushed) == sorted(popped)
        assert len([*trace.events(Decrement, task=second.id)]) >= len(pushed) - 1
        assert [*trace.events(BufferMade, BufferAdded, task=second.id)] == []
        sums = {row.place for row in trace.rows(Value) if row.task == second.id}
        assert sums == ({Place.SEED, Place.NODE_INPUT, Place.NODE_OUTPUT, Place.GRAD}
                        if level == "values" else set())  # fmt: skip


def engine_lines(trace: Trace, other: Trace) -> list[str]:
    """What a trace says, without values, of which fewer are measured without machine code."""
    return [line for line in lines(trace, other) if not line.startswith("value ")]


@pytest.mark.parametrize(
    "program",
    [
        backward_from_several_roots,
        several_roots_with_hooks,
        hooks_of_a_node_that_has_run,
        a_hook_that_raises_before_a_node_that_has_run,
    ],
)
def test_hooks_and_roots_are_recorded_alike_with_and_without_machine_code(program: Any) -> None:
    native, public = on_both_layers(program)

    assert lines(public, native) == lines(native, public)


def test_nodes_that_a_backward_has_created_are_recorded_though_no_other_follows() -> None:
    def program(torch: Any) -> None:
        x = torch.ones(2, 3, requires_grad=True)
        x.pow(3).sum(1).sum().backward(create_graph=True)

    for trace in on_both_layers(program):
        assert (trace.notes, check(trace)) == ((), [])
        made = [node for node in trace.rows(Node) if node.task != NONE]
        assert "MulBackward0" in {node.name for node in made}
