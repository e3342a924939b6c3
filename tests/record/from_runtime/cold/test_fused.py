"""A step of an optimiser, recorded: one call that writes to many tensors."""

from __future__ import annotations

from typing import Any

import pytest

import gradscope.runtime as torch
from gradscope.record.recorder import record
from gradscope.trace.schema import Edge, Node, Op, Value, Version
from gradscope.trace.spec import check

STEPS = {
    "adam": lambda p: torch.optim.Adam(p, lr=0.1),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.1, amsgrad=True),
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.1, centered=True, momentum=0.9),
}


@pytest.mark.parametrize("name", STEPS)
def test_a_step_is_one_call_and_every_write_is_counted(name: str) -> None:
    model = torch.nn.Linear(3, 2)
    optimizer = STEPS[name](model.parameters())
    before = model.weight._version
    with record() as recording:
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.ones(4, 3)).sum().backward()
            optimizer.step()

    trace = recording.trace()
    steps = [op for op in trace.rows(Op) if op.name == f"_fused_{name}_"]
    writes = [row for row in trace.rows(Version) if row.tensor == steps[0].inputs[0]]

    assert check(trace) == []
    assert len(steps) >= 2  # the first may be taken tensor by tensor
    assert [row.new for row in writes] == list(range(before + 1, model.weight._version + 1))
    assert {row.op for row in writes} >= {op.id for op in steps}


def test_what_a_step_wrote_is_looked_at() -> None:
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=float("inf"))
    with record(level="values") as recording:
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()

    trace = recording.trace()
    (step,) = [op for op in trace.rows(Op) if op.name == "_fused_sgd_"]
    looked: list[Any] = [row for row in trace.rows(Value) if row.op == step.id]

    assert {row.tensor for row in looked} == set(step.outputs)
    assert sum(row.neginf for row in looked) == 3


def test_it_does_the_same_as_unrecorded() -> None:
    def trained(*, watched: bool) -> Any:
        torch.manual_seed(0)
        model = torch.nn.Linear(3, 2)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.1)

        def step() -> None:
            optimizer.zero_grad()
            model(torch.ones(4, 3)).sum().backward()
            optimizer.step()

        if watched:
            with record():
                step()
        else:
            step()
        step()
        return model.weight.detach(), model.weight._version

    (alone, first), (seen, second) = trained(watched=False), trained(watched=True)

    assert torch.equal(alone, seen)
    assert first == second


def test_a_write_to_out_is_counted_between_other_writes() -> None:
    target = torch.zeros(3)
    with record() as recording:
        target.add_(1)
        torch.add(torch.ones(3), torch.ones(3), out=target)
        target.mul_(2)

    trace = recording.trace()

    assert check(trace) == []
    assert [row.new for row in trace.rows(Version)] == [1, 2, 3]


def test_a_step_of_adamax_writes_twice_to_its_greatest() -> None:
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.Adamax(model.parameters())
    with record() as recording:
        for _ in range(2):
            model(torch.ones(4, 3)).sum().backward()
            optimizer.step()

    assert check(recording.trace()) == []


def test_the_gradient_of_dims_changed_in_place_goes_to_what_made_the_tensor() -> None:
    x = torch.ones(2, 5, requires_grad=True)
    with record() as recording:
        torch.stack([x, x]).unsqueeze_(0).transpose_(0, 1).sum().backward()

    trace = recording.trace()
    names = {node.id: node.name for node in trace.rows(Node)}

    assert check(trace) == []
    assert {(names[edge.node], names.get(edge.next)) for edge in trace.rows(Edge)} >= {
        ("UnsqueezeBackward1", "StackBackward0"),
        ("TransposeBackward1", "UnsqueezeBackward1"),
    }
