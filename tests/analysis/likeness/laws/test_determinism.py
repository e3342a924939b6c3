"""Two runs of one program: that equal ones are the same, and where others first differ."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gradscope.analysis.likeness.laws.determinism import Determinism, determinism
from gradscope.analysis.likeness.laws.nondeterministic import known
from gradscope.trace.schema import ParameterSummary, Step, Tensor
from tests.analysis.likeness.engines import on_gradscope, on_pytorch
from tests.shared.by_hand import trace_of

Record = Callable[[Callable[[Any], Any]], Any]


@pytest.fixture(params=["gradscope", "torch"])
def record(request: pytest.FixtureRequest) -> Record:
    """Records a program at level `values`, on both engines."""
    if request.param == "torch":
        pytest.importorskip("torch")
        return lambda program: on_pytorch(program, "values")
    return lambda program: on_gradscope(program, "values")


def training(
    *, seed: int = 0, data: float = 1.0, extra: bool = False, weight: float = 0.0
) -> Callable[[Any], None]:
    """Two steps of a small network with dropout; what may differ about a run of it."""

    def program(torch: Any) -> None:
        nn = torch.nn
        torch.manual_seed(seed)
        model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 1))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        if weight:
            with torch.no_grad():
                model[2].weight.copy_(torch.full((1, 8), weight))
        for _ in range(2):
            x = torch.from_numpy(np.full((3, 4), data, np.float32))
            out = model(x)
            if extra:
                out = out.tanh()
            optimizer.zero_grad()
            out.square().mean().backward()
            optimizer.step()

    return program


def compared(record: Record, one: dict[str, Any], other: dict[str, Any]) -> Determinism:
    return determinism(record(training(**one)), record(training(**other)))


def test_two_equal_runs_have_no_difference_and_everything_was_compared(record: Record) -> None:
    found = compared(record, {}, {})

    assert (found.first, found.apart, found.alone) == (None, 0, 0)
    assert found.steps == (2, 2)
    assert found.hashes == 2 * 4  # parameters after each step
    assert found.calls >= 2 * 7
    assert found.values >= 2 * 20


def test_another_seed_is_the_first_difference(record: Record) -> None:
    first = compared(record, {}, {"seed": 1}).first

    assert first is not None
    assert (first.kind, first.name) == ("act", "seed")
    assert (first.one, first.other) == ("seed 0", "seed 1")


def test_other_data_are_named_with_the_first_call_that_received_them(record: Record) -> None:
    found = compared(record, {}, {"data": 2.0})

    first = found.first
    assert first is not None
    assert first.kind in ("leaf", "value")  # PyTorch's inputs without gradients have no row
    assert first.step == 0
    assert found.hashes == 0


def test_another_weight_is_found_before_the_results_that_follow_from_it(record: Record) -> None:
    first = compared(record, {"weight": 0.1}, {"weight": 0.2}).first

    assert first is not None
    assert first.kind in ("leaf", "value")
    assert first.step == 0
    assert "0.1" in first.one
    assert "0.2" in first.other


def test_a_further_call_is_a_difference_in_structure(record: Record) -> None:
    first = compared(record, {}, {"extra": True}).first

    assert first is not None
    assert first.kind == "call"
    assert first.other.startswith("tanh")


def test_the_same_nan_is_no_difference(record: Record) -> None:
    found = compared(record, {"data": float("nan")}, {"data": float("nan")})

    assert found.first is None


def parameters(*bits: int) -> Any:
    """A trace of one parameter after each step; only the hash of its bits may differ."""
    steps = [Step(id=n, number=n, begin=n * 10, end=n * 10 + 9) for n in range(len(bits))]
    rows = [
        ParameterSummary(step=n, tensor=1, gradient=1.0, weight=2.0, bits=each)
        for n, each in enumerate(bits)
    ]
    return trace_of(Tensor(1, shape=(2,), dtype="float32", name="weight"), *steps, *rows)


def test_bits_of_a_parameter_are_compared_even_if_its_norm_is_the_same() -> None:
    found = determinism(parameters(7, 8, 9), parameters(7, 8, 10))

    assert found.first is not None
    assert found.first.what == "weight after step 2"
    assert (found.first.one, found.first.other) == ("hash 00000009", "hash 0000000a")
    assert (found.hashes, found.apart) == (2, 1)


@pytest.mark.parametrize(
    ("name", "module", "begins"),
    [
        ("randn", "", "it draws"),
        ("bernoulli_.float", "", "it draws"),
        ("mul", "2 (Dropout)", "it draws"),
        ("index_add_", "", "on some devices"),
        ("IndexPutBackward0", "", "on some devices"),
        ("addmm", "0 (Linear)", ""),
    ],
)
def test_what_is_known_to_differ_is_said(name: str, module: str, begins: str) -> None:
    assert known(name, module).startswith(begins)
    assert bool(known(name, module)) == bool(begins)
