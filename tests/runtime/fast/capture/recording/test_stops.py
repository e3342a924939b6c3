# ruff: noqa: E501 -- lines of programs
"""What cannot be replayed is said once, with its line, and the step runs as it would have."""

from __future__ import annotations

from typing import Any

import pytest

import gradscope.runtime as torch
from gradscope.runtime.core.state.array_calls import CAPTURED_AS
from gradscope.runtime.fast.capture.captured import Captured
from gradscope.runtime.fast.capture.recording import watching
from tests.runtime.fast.capture.test_replayed_steps import bits

STOPS = {
    "print(float(y.detach().sum()))": "print() is called at step:7",
    "print('here')": "print() is called at step:7",
    "total = y.sum().item()": "a value is read (.item(), float(), or a branch) at step:7",
    "y = y * 2 if y.sum() > 0 else y": "a value is read (.item(), float(), or a branch)",
    "y = y * y.tolist()[0][0]": "values are read (.tolist())",
    "y = y * y.detach().numpy().max()": "ndarray.max() is called at step:7",
    "y = y[y > 0]": "index: the size of its result depends on values at step:7",
    "y = y[:, torch.tensor(1)]": "an index is a value in a tensor at step:7",
    "y = y.masked_select(y > 0)": "the size of its result depends on values",
    "y = y.nonzero().sum() + y": "nonzero",
    "y = y * time.time() / time.time()": "time.time() is called at step:7",
    "y = y * random.random()": "Random.random() is called",
    "y = y * np.random.rand()": "np.random draws random numbers that cannot be recorded",
    "y = y * torch.tensor(np.ones(3))": "NumPy's ones is called",
    "y.register_hook(lambda g: g * 2)": "a hook is registered on a tensor",
    "y.retain_grad()": "a hook of AddmmBackward0, or retain_grad there, at step:9",
    "y = Twice.apply(y)": "a custom Function is applied, or a module has a full backward hook",
    "seen.append(1)": "the step changes values that it reads: len(seen) was 1, is 2",
    "state.count += 1": "the step changes values that it reads: state.count was 1, is 2",
    "model.last = y.detach()": "the step changes values that it reads: model.last was a Tensor",
    "global steps; steps += 1": "the step changes values that it reads: steps was 1, is 2",
    "y = y * next(numbers)": "numbers is of builtins.generator, which is opaque",
    "y = y * next(counter)": "counter is of itertools.count, which is opaque",
    "torch.manual_seed(0)": "random numbers are drawn or seeded where it cannot be recorded",
    "y = checkpoint(torch.tanh, y, use_reentrant=False)": "checkpoint (utils.checkpoint.calls)",
    "open(here).close()": "open() is called",
    "y = y * given.max()": "ndarray.max() is called",
    "fresh = torch.ones(3, requires_grad=True); y = y * fresh": "a factory is called with out=",
    "y = y.to(torch.complex64).abs()": "ToCopyBackward0 computes with complex numbers",
    "exec('y = 1')": "exec() is called",
}  # fmt: skip

PROGRAM = """
from torch.utils.checkpoint import checkpoint
import itertools, random, time, types, numpy as np
model, x = torch.nn.Linear(4, 3), torch.linspace(-1, 1, 8).view(2, 4)
{more}
def step():
    y = model(x)
    {line}
    loss = y.sum()
    loss.backward()
    return loss
"""

MORE = """seen, steps, state, here, given = [], 0, types.SimpleNamespace(count=0), "/dev/null", np.ones(3)
numbers, counter = (float(n) for n in range(99)), itertools.count(1.0)"""


def ran(line: str, *, captured: bool) -> tuple[list[Any], Any]:
    lines = PROGRAM.format(more=MORE.replace("\n", "; "), line=line)
    scope: dict[str, Any] = {"torch": torch, "__name__": "program", "Twice": Twice}
    torch.manual_seed(0)
    random_numbers()
    exec(
        compile(
            lines.lstrip("\n").replace(
                "from torch.utils.checkpoint import checkpoint",
                "checkpoint = torch.utils.checkpoint.checkpoint",
            ),
            "step",
            "exec",
        ),
        scope,
    )
    run = Captured(scope["step"]) if captured else scope["step"]
    scope["model"].requires_grad_(True)
    return [bits(run()) for _ in range(5)], run


def random_numbers() -> None:
    import random

    import numpy as np

    random.seed(0)
    np.random.seed(0)


class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad * 2


def test_what_stops_a_capture_is_said_with_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    wrong = {}
    for line, reason in STOPS.items():
        found, run = ran(line, captured=True)
        said = capsys.readouterr().err
        wanted, _ = ran(line, captured=False)
        capsys.readouterr()
        told = str(run.stops[0]) if run.stops else f"{len(run.plans)} plans"
        if reason not in told:
            wrong[line] = told
        elif found != wanted and "time()" not in line:
            wrong[line] = "other results"
        elif said.count("is not replayed") != 1:
            wrong[line] = said

    assert wrong == {}


def test_a_function_of_the_runtime_without_a_mark_stops_a_recording(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(watching, "_kinds", {})
    marked, x = Captured(lambda: x.exp().reshape(2, 3)), torch.arange(6.0)
    for _ in range(3):
        marked()
    monkeypatch.setattr(watching, "_kinds", {})
    monkeypatch.delitem(CAPTURED_AS, "gradscope.runtime.core.ops.shape.shape:reshape")
    unmarked = Captured(lambda: x.exp().reshape(2, 3))
    for _ in range(3):
        unmarked()

    assert (len(marked.plans), unmarked.plans) == (1, [])
    assert "reshape (ops.shape.shape) reads values" in capsys.readouterr().err
