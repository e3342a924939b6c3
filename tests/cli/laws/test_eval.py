"""`gradscope law eval`: modules in eval mode do the same twice, and what keeps them from it."""

from __future__ import annotations

import importlib
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradscope.commands.debugging.laws.called_twice import CalledTwice
from gradscope.scene.timeline.laws.eval_answer import EvalCall, eval_answer
from tests.cli.conftest import Line


@pytest.fixture(params=["gradscope.runtime", "torch"])
def torch(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """An engine whose modules may be watched."""
    pytest.importorskip(request.param)
    engine = importlib.import_module(request.param)
    monkeypatch.setattr(engine.nn.Module, "__call__", engine.nn.Module.__call__)
    engine.manual_seed(0)
    return engine


def block(torch: Any, does: str) -> Any:
    """A model in eval mode; `does` says what one of its modules does that it should not."""
    nn = torch.nn

    class Block(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.linear, self.norm, self.drop = nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.5)
            self.register_buffer("steps", torch.zeros(1))
            self.count = 0

        def forward(self, x: Any) -> Any:
            x = self.norm(self.linear(x))
            match does:
                case "dropout":
                    x = nn.functional.dropout(x, 0.5)  # differs
                case "noise":
                    x = x + torch.randn_like(x)  # differs
                case "buffer":
                    self.steps += 1  # differs
                    x = x * self.steps
                case "counter":
                    self.count += 1
                    x = x + self.count  # differs
                case "python":
                    x = x + random.random()  # differs
                case "inputs":
                    x = x.add_(1)
                case "counts":
                    self.count += 1
            return self.drop(x)

    model = nn.Sequential(Block(), nn.ReLU(), nn.Linear(4, 2)).eval()
    if does == "training dropout":
        model[0].drop.train()
    if does == "training norm":
        model[0].norm.train()
    return model


def called(torch: Any, model: Any, times: int = 1) -> list[EvalCall]:
    found: list[EvalCall] = []
    CalledTwice(torch, found.append).install()
    for _ in range(times):
        with torch.no_grad():
            model(torch.ones(3, 4))
    return found


@pytest.mark.parametrize("does", ["", "inputs", "counts"])
def test_a_model_that_does_the_same_twice_has_no_finding(torch: Any, does: str) -> None:
    (found,) = called(torch, block(torch, does))

    assert (found.outputs, found.is_broken, found.error) == (1, False, "")
    assert "same outputs in eval mode, in 1 call" in eval_answer([found]).title


@pytest.mark.parametrize(
    ("does", "op", "why"),
    [
        ("dropout", "dropout", "pass training=self.training"),
        ("noise", "randn_like", "it draws random numbers"),
        ("buffer", "add_", "depends on what a call changes"),
        ("counter", "add", "depends on what a call changes"),
        ("python", "add", "random numbers are drawn with Python"),
    ],
)
def test_the_first_operation_that_differs_is_named_with_its_line(
    torch: Any, does: str, op: str, why: str
) -> None:
    (found,) = called(torch, block(torch, does))

    assert found.differs
    assert found.first is not None
    assert (found.first.op, found.first.module) == (op, "0 (Block)")
    assert found.first.line.endswith("# differs")
    assert why in str(eval_answer([found]).sections)


def test_dropout_left_in_training_mode_is_named(torch: Any) -> None:
    (found,) = called(torch, block(torch, "training dropout"))

    assert found.first is not None
    assert found.first.module == "0.drop (Dropout)"
    assert "0.drop (Dropout) is in training mode" in str(eval_answer([found]).sections)


def test_batch_norm_left_in_training_mode_is_named_by_the_buffers_it_changes(torch: Any) -> None:
    (found,) = called(torch, block(torch, "training norm"))

    assert not found.differs
    assert found.updated == [
        "0.norm.running_mean",
        "0.norm.running_var",
        "0.norm.num_batches_tracked",
    ]
    assert "changes 0.norm.running_mean" in eval_answer([found]).title


def test_the_program_does_not_see_the_further_calls(torch: Any) -> None:
    model, hooked = block(torch, "counter"), []
    model[0].register_forward_hook(lambda *_: hooked.append(1))
    states = torch.get_rng_state(), random.getstate(), np.random.get_state()[1]

    called(torch, model)

    assert (len(hooked), model[0].count) == (1, 1)
    assert bool((states[0] == torch.get_rng_state()).all())
    assert states[1] == random.getstate()
    assert (states[2] == np.random.get_state()[1]).all()


def test_each_module_is_checked_twice_at_most_and_not_in_training_mode(torch: Any) -> None:
    assert len(called(torch, block(torch, ""), times=5)) == 2
    assert called(torch, block(torch, "").train()) == []


def test_a_module_that_cannot_be_copied_is_said_to_be_left_out(torch: Any) -> None:
    class Single(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __deepcopy__(self, memo: Any) -> Any:
            raise TypeError("there is only one")

        def forward(self, x: Any) -> Any:
            return x

    (found,) = called(torch, Single().eval())

    assert "there is only one" in found.error
    assert "nothing could be compared" in eval_answer([found]).title


PROGRAM = """\
import sys
import torch

model = torch.nn.Dropout(0.5).train(sys.argv[1] == "train")
print(model(torch.ones(8)))
print(torch.nn.functional.dropout(torch.nn.Identity().eval()(torch.ones(2))))
"""


@pytest.mark.slow
def test_a_program_runs_once_with_its_arguments(run: Line) -> None:
    Path("evaluate.py").write_text(PROGRAM, encoding="utf-8")

    ran = run("law", "--on", "gradscope", "eval", "evaluate.py", "eval")
    failed = run("law", "--on", "gradscope", "eval", "evaluate.py")

    assert ran.code == 0
    assert "same outputs in eval mode, in 2 calls" in ran.out
    assert "2 calls of Dropout, Identity" in ran.out
    assert failed.code == 2
    assert "IndexError" in failed.err


def test_a_program_without_calls_in_eval_mode_is_said_to_have_none() -> None:
    assert "calls no module in eval mode" in eval_answer([]).title
