"""Level `full` on PyTorch: what each call was given and returned, who that was, and who made it."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from gradscope.analysis.answers.meant import tensor_meant
from gradscope.analysis.graph.forward.calls import ForwardCalls
from gradscope.analysis.graph.forward.flows import Flows
from gradscope.record.from_pytorch.called.identities import Identities
from gradscope.trace.schema import NONE, Op, Tensor, Version
from gradscope.trace.trace import Trace
from gradscope.watch.called import operand_rows as row
from tests.record.from_pytorch.watching import watched


def operand(call: int, at: int, tensor: int, counter: int = 7, version: int = 0) -> Any:
    made = np.zeros(row.WIDTH, np.int64)
    columns = [row.CALL, row.AT, row.TENSOR, row.STORAGE, row.DATA, row.COUNTER, row.VERSION]
    made[columns] = call, at, tensor, tensor + 1, tensor + 2, counter, version
    return made


def who(*parts: list[Any]) -> list[list[int]]:
    identities = Identities()
    return [identities.of(np.array(part)).tensor.tolist() for part in parts]


def test_what_a_call_returns_is_new_unless_it_was_given_it() -> None:
    assert who([operand(1, -1, 80), operand(2, 0, 80), operand(2, -1, 80)]) == [[0, 0, 0]]
    assert who([operand(1, -1, 80), operand(2, 0, 80), operand(3, -1, 80)]) == [[0, 0, 1]]
    assert who([operand(1, -1, 80)], [operand(2, 0, 80)], [operand(3, -1, 80)]) == [[0], [0], [1]]


def test_what_a_call_inside_another_has_returned_is_what_that_returns() -> None:
    # call 1 runs call 2, whose result it returns; call 3, in it, has a result that dies
    inside = [operand(2, -1, 80), operand(3, -1, 96), operand(1, -1, 80), operand(4, 0, 80)]

    assert who(inside) == [[0, 1, 0, 0]]


def test_what_looks_different_is_another_tensor() -> None:
    assert who([operand(1, -1, 80), operand(2, 0, 80, counter=9)]) == [[0, 1]]
    assert who([operand(1, 0, 80, version=3), operand(2, 0, 80, version=4)]) == [[0, 0]]
    assert who([operand(1, 0, 80, version=3), operand(2, 0, 80, version=2)]) == [[0, 1]]


def made_of(trace: Trace) -> list[tuple[str, list[str]]]:
    """Calls in order, each with who made what it was given."""
    calls, flows = ForwardCalls(trace), Flows(trace)
    from_: list[list[str]] = [[] for _ in range(len(calls))]
    for flow in flows.all:
        from_[flow.user].append("" if flow.maker == NONE else calls.of(flow.maker))
    return [(calls.of(place), each) for place, each in enumerate(from_)]


@pytest.mark.torch
def test_a_program_without_gradients_says_who_made_what_calls_were_given() -> None:
    import torch

    def program() -> None:
        with torch.no_grad():
            x = torch.rand(3, 2)
            y = torch.cat([x, x * 2])
            y.relu_()
            z = y.data.sum()
            assert z[None].tolist()

    _, trace = watched(program, "full")

    assert made_of(trace) == [
        ("rand", []),
        ("mul", ["rand"]),
        ("cat", ["rand", "mul"]),
        ("relu_", ["cat"]),
        ("sum", ["relu_", "cat"]),  # `.data` shares the memory, and PyTorch tells nobody of it
        ("unsqueeze", ["sum"]),
        ("resolve_conj", ["unsqueeze"]),
        ("resolve_neg", ["unsqueeze"]),
    ]
    (write,) = trace.rows(Version)
    tensors = trace.table(Tensor)
    assert (write.old, write.new) == (0, 1)
    assert tensors.row(write.tensor).shape == (6, 2)
    assert tensors.row(write.tensor).dtype == "float32"
    assert tensors.row(tensor_meant(trace, "x")).shape == (3, 2)  # the variable it was made as


@pytest.mark.torch
def test_calls_that_made_nodes_say_what_they_were_given_that_needs_no_gradient() -> None:
    import torch

    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * x

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad

    def program() -> None:
        w = torch.ones(3, requires_grad=True)
        h = Square.apply(w * 2) + torch.rand(3)
        best, where = h.max(0)
        (best * (where + 1)).backward()
        w.grad.sin()

    _, trace = watched(program, "full")
    found = dict(made_of(trace))

    assert found["add#1"] == ["square", "rand"]
    assert found["add#2"] == ["max"]
    assert found["mul#2"] == ["max", "add#2"]
    sin = next(each for each in trace.rows(Op) if each.name == "sin")
    assert trace.table(Tensor).has(sin.inputs[0])


@pytest.mark.torch
def test_what_was_written_in_place_is_one_tensor_and_numbers_are_none() -> None:
    import torch

    def program() -> None:
        w = torch.ones(3, requires_grad=True)
        h = (w * 0.5).relu_()
        torch.cat([h, h.neg()]).sum().backward()

    _, trace = watched(program, "full")
    makers = dict(made_of(trace))
    rows = {row.name: row for row in trace.rows(Op) if row.node != NONE}

    assert makers["cat"] == ["relu_", "neg#1"]
    assert len(rows["mul"].inputs) == 1  # 0.5 is kept by the node as a tensor, and is none
    assert rows["relu_"].inputs == rows["relu_"].outputs == rows["neg"].inputs


def random_program(seed: int) -> tuple[Any, list[tuple[str, list[int]]]]:
    """A program of calls whose results die at any time; each call, and whose results it takes."""
    import torch

    chance, wanted = random.Random(seed), []

    def program() -> None:
        alive: list[tuple[Any, int]] = []
        with torch.no_grad():
            for _ in range(150):
                if len(alive) < 3 or chance.random() < 0.1:
                    made, name, used = torch.empty(4), "empty", []
                else:
                    (a, one), (b, other) = chance.choice(alive), chance.choice(alive)
                    name, made, used = chance.choice((
                        ("add", lambda a=a, b=b: a + b, [one, other]),
                        ("mul", lambda a=a: a * 3, [one]),
                        ("cat", lambda a=a, b=b: torch.cat([a[:2], b[:2]]), [one, other]),
                        ("clone", lambda a=a: a.clone(), [one]),
                        ("flip", lambda a=a: a.flip(0), [one]),
                    ))  # fmt: skip
                    if name == "cat":
                        wanted.append(("slice", [one]))
                        wanted.append(("slice", [other]))
                        used = [len(wanted) - 2, len(wanted) - 1]
                    made = made()
                wanted.append((name, list(dict.fromkeys(used))))
                alive.append((made, len(wanted) - 1))
                del made
                while len(alive) > 6 or (alive and chance.random() < 0.3):
                    del alive[chance.randrange(len(alive))]

    return program, wanted


@pytest.mark.torch
def test_addresses_that_are_used_again_are_told_apart() -> None:
    for seed in range(4):
        program, wanted = random_program(seed)
        _, trace = watched(program, "full")
        calls, flows = ForwardCalls(trace), Flows(trace)
        found: list[tuple[str, list[int]]] = [(name, []) for name in calls.names]
        for flow in flows.all:
            found[flow.user][1].append(flow.maker)

        assert [(name, list(dict.fromkeys(makers))) for name, makers in found] == wanted
