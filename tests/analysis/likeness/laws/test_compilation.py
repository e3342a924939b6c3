"""A compiled run does what the same run without compilation does; if not, the line is named."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gradscope.analysis.identity.sites import Site
from gradscope.analysis.likeness.laws.compilation import CompiledDiffers, CompiledRun, compiled_run
from gradscope.analysis.likeness.laws.gradients import Precision
from gradscope.scene.timeline.laws.compiled_answer import compiled_answer
from gradscope.trace.schema import Compilation
from tests.analysis.likeness.engines import on_gradscope, on_pytorch


def training(*, compiles: bool, does: str = "") -> Callable[[Any], None]:
    """Two steps of a small network that does something else while it is compiled."""

    def program(torch: Any) -> None:
        nn = torch.nn
        torch.manual_seed(0)
        layers = nn.ModuleList([nn.Linear(4, 8), nn.Linear(8, 8), nn.Linear(8, 1)])

        def forward(x: Any) -> Any:
            compiling = compiles and torch.compiler.is_compiling()
            x = torch.relu(layers[0](x))
            if does == "other values" and compiling:
                x = x * 1.01  # only compiled
            x = torch.tanh(layers[1](x))
            if does == "other gradients" and compiling:
                x = x.detach() * 0.5 + x * 0.5  # only compiled
            return layers[2](x)

        net = torch.compile(forward, backend="aot_eager") if compiles else forward
        optimizer = torch.optim.AdamW(layers.parameters(), lr=0.01)
        x = torch.randn(16, 4)
        for _ in range(2):
            loss = net(x).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    return program


def law(does: str) -> CompiledRun:
    torch = pytest.importorskip("torch")
    eager = on_pytorch(training(compiles=False, does=does), "values")
    try:
        return compiled_run(eager, on_pytorch(training(compiles=True, does=does), "values"))
    finally:
        torch._dynamo.reset()


@pytest.mark.slow
def test_a_compiled_run_that_computes_the_same_keeps_the_law() -> None:
    found = law("")

    assert found.first is None
    assert not found.is_broken
    assert (found.compilations, found.steps, found.gradients) == (1, 2, 2 * 6)
    assert "compute the same, in 2 steps" in compiled_answer(found).title


@pytest.mark.slow
def test_another_loss_is_named_with_the_line_that_runs_only_when_compiled() -> None:
    first = law("other values").first

    assert first is not None
    assert (first.step, first.what) == (0, "loss")
    assert first.sizes[0] != first.sizes[1]
    assert [(each.compiled, each.op) for each in first.only] == [(True, "aten.mul.Tensor")]
    assert first.only[0].site.text.endswith("# only compiled")


@pytest.mark.slow
def test_other_gradients_of_the_same_loss_are_named_with_the_call_they_first_arrive_at() -> None:
    found = law("other gradients")

    first = found.first
    assert first is not None
    assert (first.step, first.what, len(first.pairs)) == (0, "gradients", 4)
    assert all(abs(pair.factor - 0.5) < 1e-3 for pair in first.pairs)
    assert first.site.text == "x = torch.tanh(layers[1](x))"
    assert "first in gradients of step 0, addmm at" in compiled_answer(found).title


def test_a_program_that_compiles_nothing_is_said_to_have_nothing_to_compare() -> None:
    trace = on_gradscope(training(compiles=False), "values")

    found = compiled_run(trace, trace)

    assert (len(trace.table(Compilation)), found.is_broken) == (0, False)
    assert "compiles nothing" in compiled_answer(found).title


@pytest.mark.parametrize("backend", ["eager", "aot_eager", ""])
def test_the_part_of_the_compiler_that_differs_is_said(backend: str) -> None:
    first = CompiledDiffers(0, "loss", (1.0, 2.0), (), "", Site(), ())
    found = CompiledRun(1, 0, 1, 1, 0, Precision("float32", 23), "", first)

    why = compiled_answer(found, backend).sections[0]

    assert why.title == "why"
    assert f"'{backend}'" in why.lines[0] or "its own backend" in why.lines[0]
