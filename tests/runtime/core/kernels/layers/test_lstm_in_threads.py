"""LSTMs as large as compiled kernels make, in one thread and several, against PyTorch's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import gradscope.runtime as ours
from gradscope.runtime.fast.threads import spread
from tests.runtime.engines import torch

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]

STEPS, SIZE = 26, 20
LAYERS = """nn.LSTM(20, 50)
nn.LSTM(20, 50, bidirectional=True)
nn.LSTM(20, 50, num_layers=2, dropout=0.0, bias=False)
nn.LSTM(20, 50, batch_first=True)
nn.LSTM(20, 50, num_layers=2, bidirectional=True, batch_first=True)
nn.LSTM(20, 50, proj_size=17)"""


@pytest.fixture(autouse=True)
def _threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Several threads are always worth it here."""
    monkeypatch.setattr(spread, "LEAST", 1)
    monkeypatch.setattr(spread, "WAKING", 0)
    monkeypatch.setattr(spread, "WORTH", float("inf"))
    before = spread._State.threads
    yield
    spread.set_kernel_threads(before)


def trained(module: Any, layer: str, batch: int) -> list[Any]:
    """What a layer gives, and the gradients of all it was given."""
    made = eval(layer, {"nn": module.nn})
    numbers = np.random.default_rng(0)

    def normal(*shape: int) -> Any:
        return module.from_numpy(numbers.normal(size=shape).astype(np.float32))

    with module.no_grad():
        for parameter in made.parameters():
            parameter.copy_(normal(*parameter.shape) / 8)
    x = normal(*((batch, STEPS) if made.batch_first else (STEPS, batch)), SIZE).requires_grad_()
    many = made.num_layers * (2 if made.bidirectional else 1)
    width = made.proj_size or made.hidden_size
    first = normal(many, batch, width).requires_grad_()
    cells = normal(many, batch, made.hidden_size).requires_grad_()
    out, last = made(x, (first, cells))
    found = [out, *last]
    sum((each * normal(*each.shape)).sum() for each in found).backward()
    given = [x, first, cells, *made.parameters()]
    return [each.detach().numpy() for each in found] + [each.grad.numpy() for each in given]


@pytest.mark.parametrize("batch", [1, 7, 13, 16, 33])
@pytest.mark.parametrize("layer", LAYERS.split("\n"))
def test_an_lstm_is_pytorchs_in_any_number_of_threads(layer: str, batch: int) -> None:
    expected = trained(torch, layer, batch)
    found = []
    for threads in (1, 2, 3):
        spread.set_kernel_threads(threads)
        found.append(trained(ours, layer, batch))

    for mine, known in zip(found[0], expected, strict=True):
        scale = np.abs(known).max()
        np.testing.assert_allclose(mine / scale, known / scale, rtol=0, atol=3e-6)
    first, *others = [[each.tobytes() for each in made] for made in found]
    assert all(other == first for other in others)
