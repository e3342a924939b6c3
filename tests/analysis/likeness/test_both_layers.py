"""A program is recorded alike with machine code and with PyTorch's public API only."""

from __future__ import annotations

import difflib
from typing import Any

import pytest
from hypothesis import given

from gradscope.trace.trace import Trace
from tests.analysis.likeness.engines import lines, on_pytorch
from tests.analysis.likeness.test_random_programs import told
from tests.programs import Program, outcome, programs
from tests.programs.ordinary import ROOMS, programs_of
from tests.shared.searching import searching

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]


def on_both_layers(program: Any) -> tuple[Trace, Trace]:
    """The traces of a program with machine code, and with PyTorch's public API only."""
    native, public = on_pytorch(program), on_pytorch(program, native=False)
    assert "no_machine_code" in public.meta
    return native, public


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

    assert differ == {}


@searching(20)
@given(programs())
def test_a_random_program_is_recorded_alike_with_and_without_machine_code(program: Program) -> None:
    native, public = on_both_layers(lambda torch: outcome(torch, program))

    assert [*told(lines(public, native))] == [*told(lines(native, public))]


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
