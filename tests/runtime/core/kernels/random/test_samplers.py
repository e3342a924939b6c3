"""Numbers by rejection: PyTorch's for a seed; compiled loops give the plain ones' numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradscope.runtime as ours
from gradscope.runtime.core.kernels.random import samplers
from gradscope.runtime.core.state import generator
from gradscope.runtime.fast.random import fast_samplers

DRAWS = {
    "gamma": lambda e, x: e._standard_gamma(x * 3),
    "gamma of large shapes": lambda e, x: e._standard_gamma(x * 60),
    "gamma of zero": lambda e, x: e._standard_gamma((x - 0.5).relu()),
    "dirichlet": lambda e, x: e._sample_dirichlet(x.view(20, 10)),
    "poisson": lambda e, x: e.poisson(x * 9),
    "poisson of large rates": lambda e, x: e.poisson(x * 200),
    "binomial": lambda e, x: e.binomial((x * 30).floor(), x.flip(0)),
    "binomial of many": lambda e, x: e.binomial((x * 3000).floor(), x.flip(0)),
    "cauchy": lambda e, x: x.clone().cauchy_(1.0, 0.5),
    "log normal": lambda e, x: x.clone().log_normal_(0.5, 0.3),
    "geometric": lambda e, x: x.clone().geometric_(0.2),
}


@pytest.mark.torch
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", DRAWS)
def test_a_seed_gives_pytorchs_numbers(name: str, dtype: str) -> None:
    found = []
    for engine in (ours, pytest.importorskip("torch")):
        engine.manual_seed(7)
        x = engine.rand(200, dtype=getattr(engine, dtype))
        engine.randn(3)  # one normal number is kept for the next draw
        made = DRAWS[name](engine, x)
        found.append((made.numpy(), engine.rand(3).tolist()))

    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-15)
    assert found[0][1] == found[1][1]


@pytest.mark.torch
def test_samples_move_with_their_parameters_as_pytorchs() -> None:
    rng = np.random.default_rng(0)
    shape, x = rng.random(3000) * 30 + 1e-3, rng.random(3000) * 40 + 1e-3
    unit, a, b = rng.random(3000), rng.random(3000) * 20 + 0.01, rng.random(3000) * 20 + 0.01
    found = []
    for engine in (ours, pytest.importorskip("torch")):
        t = engine.from_numpy
        gamma = engine._standard_gamma_grad(t(shape), t(x))
        beta = engine._dirichlet_grad(t(unit), t(a), t(a + b))
        found.append(np.concatenate([gamma.numpy(), beta.numpy()]))

    np.testing.assert_allclose(found[0], found[1], rtol=1e-9)


FILLS = {
    "fill_gamma": (*samplers.gamma_constants(np.linspace(0, 9, 500)),),
    "fill_poisson": (np.linspace(0, 40, 500),),
    "fill_binomial": (np.linspace(0, 60, 500).round(), np.linspace(0, 1, 500)),
}


@pytest.mark.parametrize("name", FILLS)
def test_a_compiled_loop_gives_the_plain_ones_numbers(name: str) -> None:
    units = np.random.default_rng(0).random(20_000)
    found = []
    for room in (samplers, fast_samplers):
        out, state = np.empty(500), np.zeros(3)
        getattr(room, name)(out, *FILLS[name], units, state)
        found.append((out, state))

    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-14)
    np.testing.assert_allclose(found[0][1], found[1][1], rtol=1e-12)


def test_a_draw_that_runs_out_of_numbers_starts_anew_with_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rates = np.full(50, 5.0)
    expected = generator.Generator().poisson(rates)
    accepted = generator.Generator._accepted

    def stingy(self: Any, fill: str, guess: int, *parameters: Any) -> Any:
        return accepted(self, fill, 0, *parameters)

    monkeypatch.setattr(generator.Generator, "_accepted", stingy)

    assert generator.Generator().poisson(rates).tolist() == expected.tolist()


@pytest.mark.torch
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["gammainc", "gammaincc"])
def test_shares_of_gamma_distributions_are_pytorchs(name: str, dtype: str) -> None:
    rng = np.random.default_rng(0)
    a, x = rng.random(2000) * 60 * rng.random(2000), rng.random(2000) * 80 * rng.random(2000)
    a[:6], x[:6] = [0, 0, 1, np.inf, 2, -1], [0, 1, 0, 2, np.inf, 1]
    found = [
        getattr(engine.special, name)(
            *(engine.from_numpy(each.astype(dtype)) for each in (a, x))
        ).numpy()
        for engine in (ours, pytest.importorskip("torch"))
    ]

    np.testing.assert_allclose(found[0], found[1], atol=1e-8 if dtype == "float64" else 2e-6)
