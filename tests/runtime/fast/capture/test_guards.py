# ruff: noqa: E501 -- lines of programs
"""Each kind of change between two calls is noticed: the step does what it would have done eagerly."""

from __future__ import annotations

from typing import Any

import pytest

import gradscope.runtime as torch
from gradscope.runtime.fast.capture.captured import Captured
from tests.runtime.fast.capture.test_replayed_steps import bits, left

PROGRAM = """
import sys, types
sys.flag = [0.5]
nn, F = torch.nn, torch.nn.functional
scale, table, options = 1.5, [1.0, 2.0], types.SimpleNamespace(power=2, shift=0.5)
ordered = {"a": 1.5, "b": 0.5}


class Model(nn.Module):
    weighting = 0.25

    def __init__(self):
        super().__init__()
        self.inner, self.last = nn.Linear(4, 5), nn.Sequential(nn.Tanh(), nn.Dropout(0.3), nn.Linear(5, 3))
        self.norm = nn.BatchNorm1d(5)
        self.register_buffer("offset", torch.zeros(3))
        self.rate = 0.1

    def forward(self, x):
        return self.last(self.norm(self.inner(x))) * self.rate + self.offset + self.weighting


def shifted(x, by=3.0):
    return x + by * options.shift


def make():
    torch.manual_seed(0)
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    factor = 2.0

    def set_factor(value):
        nonlocal factor
        factor = value

    def step(x, weight=1.0):
        optimizer.zero_grad()
        loss = (shifted(model(x)) * scale * factor * weight * table[1]).pow(options.power).mean()
        for key in ordered:
            loss = loss * ordered[key] + step.extra + sys.flag[0]
        loss.backward()
        optimizer.step()
        return loss

    step.extra = 0.25
    return step, model, optimizer, set_factor
"""

NOTICED = {
    "another shape": "x = torch.ones(6, 4)",
    "another dtype": "model.double(); x = x.double()",
    "other strides": "x = torch.ones(4, 5).t()",
    "an argument that requires a gradient": "x.requires_grad_()",
    "another number": "weight = 3.0",
    "an int for a float": "weight = 1",
    "a keyword argument": "kwargs['weight'] = 2.0; weight = None",
    "evaluation": "model.eval()",
    "a probability": "model.last[1].p = 0.6",
    "a frozen parameter": "model.inner.weight.requires_grad_(False)",
    "a new parameter": "model.inner.bias = nn.Parameter(torch.ones(5))",
    "new numbers behind a parameter": "model.inner.bias.data = torch.ones(5)",
    "a new layer": "model.last[2] = nn.Linear(5, 3); optimizer.add_param_group({'params': model.last[2].parameters()})",
    "a global number": "G['scale'] = 0.5",
    "a global function": "G['shifted'] = lambda x: x * 2",
    "an element of a list": "G['table'][1] = 5.0",
    "a longer list": "G['table'].insert(0, 7.0)",
    "an attribute": "G['options'].shift = 4.0",
    "an exponent": "G['options'].power = 3",
    "a default": "G['shifted'].__defaults__ = (1.0,)",
    "a variable of an enclosing function": "set_factor(9.0)",
    "an attribute of a module": "model.rate = 0.7",
    "an attribute of a class": "G['Model'].weighting = 3.0",
    "an attribute that hides that of a class": "model.weighting = 5.0",
    "another forward": "model.forward = lambda x: model.inner(x)[:, :3] * 2",
    "a buffer": "model.offset = torch.ones(3)",
    "numbers in a buffer": "model.offset.fill_(2.0)",
    "a hook of a leaf": "model.inner.weight.register_hook(lambda g: g * 2)",
    "a hook after a leaf": "model.inner.weight.register_post_accumulate_grad_hook(lambda p: (p.grad.mul_(2), None)[1])",
    "a hook of a module": "model.inner.register_forward_hook(lambda m, i, o: o * 2)",
    "a hook of an optimizer": "optimizer.register_step_pre_hook(lambda o, a, k: None)",
    "a hook of all modules": "removed.append(nn.modules.module.register_module_forward_hook(lambda m, i, o: o * 1.5))",
    "momentum": "optimizer.param_groups[0]['momentum'] = 0.0",
    "the learning rate": "optimizer.param_groups[0]['lr'] = 0.01",
    "weight decay": "optimizer.param_groups[0]['weight_decay'] = 0.1",
    "the state of an optimizer": "optimizer.load_state_dict(optimizer.state_dict())",
    "no state": "optimizer.state.clear()",
    "another parameter's momentum": "next(iter(optimizer.state.values()))['momentum_buffer'].zero_()",
    "gradients from elsewhere": "model.inner.bias.grad = torch.ones(5)",
    "the order of a dict": "G['ordered']['a'] = G['ordered'].pop('a')",
    "an attribute of a function": "step.extra = 4.0",
    "a list of a library": "G['sys'].flag[0] = 9.0",
    "a seed": "torch.manual_seed(77)",
    "the default dtype": "torch.set_default_dtype(torch.float64); removed.append(Restored())",
    "deterministic algorithms": "torch.use_deterministic_algorithms(True); removed.append(Lenient())",
}  # fmt: skip
READ_ANEW = {
    "the learning rate", "a seed", "numbers in a buffer",
    "another parameter's momentum", "new numbers behind a parameter", "gradients from elsewhere",
}  # fmt: skip
"""Changes after which the same plan is right."""


class Restored:
    def remove(self) -> None:
        torch.set_default_dtype(torch.float32)


class Lenient:
    def remove(self) -> None:
        torch.use_deterministic_algorithms(False)


def seen(change: str, *, captured: bool) -> tuple[list[Any], Any]:
    """What a step gives and leaves in each call; the program is changed after the fifth."""
    scope: dict[str, Any] = {"torch": torch, "__name__": "program"}
    exec(compile(PROGRAM, "program", "exec"), scope)
    step, model, optimizer, set_factor = scope["make"]()
    run = Captured(step) if captured else step
    x, weight, kwargs = torch.linspace(-1, 1, 16).view(4, 4), 1.0, {}
    removed: list[Any] = []
    names = {
        "model": model, "step": step, "optimizer": optimizer, "set_factor": set_factor, "G": scope, "x": x,
        "weight": weight, "kwargs": kwargs, "torch": torch, "nn": torch.nn, "removed": removed,
        "Restored": Restored, "Lenient": Lenient,
    }  # fmt: skip
    found = []
    torch.manual_seed(1)
    try:
        for call in range(11):
            if call == 5:
                exec(change, names)
            given = (names["x"],) if names["weight"] is None else (names["x"], names["weight"])
            found.append((bits(run(*given, **names["kwargs"])), left(model)))
    finally:
        for each in removed:
            each.remove()
    return found, run


@pytest.mark.parametrize("part", range(2))
def test_a_change_between_calls_is_noticed(part: int, capsys: pytest.CaptureFixture[str]) -> None:
    wrong: dict[str, Any] = {}
    for name in list(NOTICED)[part::2]:
        eager, _ = seen(NOTICED[name], captured=False)
        replayed, run = seen(NOTICED[name], captured=True)
        differ = [
            nr for nr, pair in enumerate(zip(eager, replayed, strict=True)) if pair[0] != pair[1]
        ]
        fitted = not run.recaptured and not run.stops
        if differ or fitted is not (name in READ_ANEW):
            wrong[name] = differ or f"recaptured: {run.recaptured}, {run.stops}"

    assert wrong == {}


READ_BY_STRINGS = """
import operator, types
options = types.SimpleNamespace(hidden=0.5)
weight = torch.ones(3, requires_grad=True)

def matched(thing):
    match thing:
        case types.SimpleNamespace(hidden=2.0):
            return 3.0
    return 1.0

def step(x):
    loss = (x * weight).sum() * READ
    loss.backward()
    return loss.detach()
"""


def test_attributes_are_seen_that_are_read_by_strings() -> None:
    for read in (
        "options.__dict__['hidden']", "vars(options)['hidden']", "getattr(options, 'hidden')",
        "operator.attrgetter('hidden')(options)", "matched(options)",
    ):  # fmt: skip
        scope: dict[str, Any] = {"torch": torch, "__name__": "program"}
        exec(compile(READ_BY_STRINGS.replace("READ", read), "program", "exec"), scope)
        run = Captured(scope["step"])
        before = [run(torch.ones(3)).item() for _ in range(5)]
        scope["options"].hidden = 2.0

        assert run.plans[0].replays >= 3, read
        factor = 3.0 if "matched" in read else 4.0
        assert run(torch.ones(3)).item() == before[-1] * factor, read


def test_after_a_change_of_shape_there_are_two_plans() -> None:
    weight = torch.ones(3, requires_grad=True)

    def step(x: Any) -> Any:
        loss = (x * weight).sum()
        loss.backward()
        return loss

    run = Captured(step)
    for size in (2, 4):
        for _ in range(5):
            run(torch.ones(size, 3))
    told = run.recaptured
    for size in (2, 4, 2):
        run(torch.ones(size, 3))

    assert [plan.proved for plan in run.plans] == [True, True]
    assert told == ["args[0] was float32 of 2×3 (no grad), is float32 of 4×3 (no grad)"]
    assert (run.eager, run.recaptured) == (5, told)  # watched once; each recorded and proved


def test_a_tensor_that_the_step_also_reaches_is_not_taken_for_another() -> None:
    weight = torch.full((3,), 2.0, requires_grad=True)

    def step(x: Any) -> Any:
        loss = (x * weight * 3.0).sum()
        loss.backward()
        return loss.detach()

    run = Captured(step)
    for _ in range(5):
        weight.grad = None
        run(torch.ones(3, requires_grad=True))
    weight.grad = None
    run(weight)

    assert run.plans[0].replays >= 3
    assert weight.grad.tolist() == [12.0, 12.0, 12.0]
