"""Steps of optimizers: plain and compiled give the same numbers, small and large alike."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest

import gradscope.runtime as torch
from gradscope.runtime.core.kernels.arrays import stepping
from gradscope.runtime.fast.arrays import fast_optim

SIZES = (1, 7, 100, stepping.PIECE // 3, stepping.PIECE + 5)
ADAM = stepping.AdamOptions(1, 0.1, 0.1, 0.99, 0.01, 0.4, 1e-8, 0.02, False)
OPTIONS = {
    "sgd": (stepping.SGDOptions(0.1, 0, 0, 0, False, False), 2),
    "sgd, moving": (stepping.SGDOptions(0.1, 0.01, 0.9, 0.2, False, True), 3),
    "sgd, nesterov": (stepping.SGDOptions(0.1, 0.01, 0.9, 0, True, False), 3),
    "adam": (ADAM, 4),
    "adam, greatest": (ADAM._replace(shrink=0.9, weight_decay=0, maximize=True), 5),
    "adam, far": (ADAM._replace(mean_weight=0.7), 4),
    "rmsprop": (stepping.RMSpropOptions(0.1, 0.9, 1e-8, 0.1, 0, False, True), 3),
    "rmsprop, moving": (stepping.RMSpropOptions(0.1, 0.9, 1e-8, 0.1, 0.9, False, False), 4),
    "rmsprop, only centered": (stepping.RMSpropOptions(0.1, 0.4, 1e-2, 0, 0, True, True), 4),
    "rmsprop, centered": (stepping.RMSpropOptions(0.1, 0.4, 1e-2, 0, 0.9, True, False), 5),
}


def lists(rows: int, dtype: Any) -> Any:
    """Arrays of many sizes; states that stand for squares are positive."""
    rng = np.random.default_rng(0)
    made = [[rng.normal(size=size).astype(dtype) for size in SIZES] for _ in range(rows)]
    for row in made[2:]:
        for array in row:
            np.abs(array, out=array)
    return made


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", OPTIONS)
def test_a_compiled_step_gives_the_plain_ones_bits(name: str, dtype: Any) -> None:
    options, rows = OPTIONS[name]
    kind = name.partition(",")[0]
    plain, compiled = lists(rows, dtype), lists(rows, dtype)

    stepping.stepped(getattr(stepping, f"{kind}_rule"), options, plain)
    assert fast_optim.stepped(kind, options, compiled)

    for one, other in zip(plain, compiled, strict=True):
        for a, b in zip(one, other, strict=True):
            np.testing.assert_array_equal(a, b)
    assert not np.array_equal(plain[0][2], lists(rows, dtype)[0][2])


def test_a_program_compiles_when_its_steps_were_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stepping._Spent, "compiled", None)
    monkeypatch.setattr(stepping._Spent, "time", 0)
    options, rows = OPTIONS["sgd"]

    stepping.sgd(options, lists(rows, np.float32)[:2])
    assert stepping._Spent.compiled is None
    monkeypatch.setattr(stepping._Spent, "time", stepping.WORTH_COMPILING)
    stepping.sgd(options, lists(rows, np.float32))

    assert stepping._Spent.compiled is fast_optim


def test_addresses_are_those_numpy_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    arrays = lists(2, np.float32)

    read = fast_optim.addresses(arrays)
    monkeypatch.setattr(fast_optim, "_OBJECTS_READ", False)

    np.testing.assert_array_equal(read, fast_optim.addresses(arrays))


def test_what_is_added_in_place_takes_no_memory_for_a_sum() -> None:
    rng = np.random.default_rng(0)
    values, other = (rng.normal(size=(512, 512)).astype(np.float32) for _ in range(2))
    known = torch.tensor(values).add(torch.tensor(other), alpha=-0.3)
    made, rows = torch.tensor(values), torch.tensor(values)
    wide = torch.tensor(values).t()
    made.add_(torch.tensor(other), alpha=-0.3)  # what is loaded is loaded
    made, other = torch.tensor(values), torch.tensor(other)

    tracemalloc.start()
    try:
        made.add_(other, alpha=-0.3)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    rows.add_(other[0], alpha=2)
    wide.add_(other, alpha=2)
    made_of_itself = torch.tensor(values)
    made_of_itself.add_(made_of_itself, alpha=2)

    assert peak < values.nbytes / 2
    assert made.numpy().tobytes() == known.numpy().tobytes()
    assert made._version == 1
    assert torch.equal(rows, torch.tensor(values).add(other[0], alpha=2))
    assert torch.equal(wide, torch.tensor(values).t().add(other, alpha=2))
    assert torch.equal(made_of_itself, torch.tensor(values).add(torch.tensor(values), alpha=2))
