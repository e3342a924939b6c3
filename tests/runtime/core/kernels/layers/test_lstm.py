"""The compiled steps of an LSTM beside their plain twins; the layer beside differences."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gradscope.runtime.core.kernels.layers import lstm
from gradscope.runtime.core.kernels.support import Array
from gradscope.runtime.fast.layers import fast_lstm, lstm as tiles
from gradscope.runtime.fast.threads import spread

BATCH, WIDTH = 3, 19


def normal(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def forward_step(step: Any) -> list[Array]:
    gates = normal(0, BATCH, 4 * WIDTH) * 4
    cells, state = np.empty((BATCH, WIDTH), np.float32), np.empty((BATCH, WIDTH), np.float32)
    step(
        gates,
        normal(1, BATCH, 4 * WIDTH),
        normal(2, 4 * WIDTH),
        normal(3, BATCH, WIDTH),
        cells,
        state,
    )
    return [gates, cells, state]


def backward_step(step: Any) -> list[Array]:
    gates, cells, _ = forward_step(lstm.cell)
    to_cells, out = normal(6, BATCH, WIDTH), np.empty((BATCH, 4 * WIDTH), np.float32)
    before = normal(3, BATCH, WIDTH)
    step(gates, cells, before, normal(4, BATCH, WIDTH), normal(5, BATCH, WIDTH), to_cells, out)
    return [to_cells, out]


@pytest.mark.parametrize(
    ("run", "fast", "plain"),
    [
        (forward_step, fast_lstm.cell, lstm.cell),
        (backward_step, fast_lstm.cell_backward, lstm.cell_backward),
    ],
)
def test_a_compiled_step_is_its_plain_twin(run: Any, fast: Any, plain: Any) -> None:
    for found, expected in zip(run(fast), run(plain), strict=True):
        np.testing.assert_allclose(found, expected, rtol=2e-6, atol=5e-7)


def test_the_compiled_tanh_keeps_nan_and_ends_at_one() -> None:
    gates = np.full((1, 4), np.nan, np.float32)
    nothing, one = np.zeros((1, 4), np.float32), np.ones((1, 1), np.float32)
    cells, state = one.copy(), one.copy()

    fast_lstm.cell(gates, nothing, nothing[0], one, cells, state)

    assert np.isnan(gates).all()
    assert np.isnan(state).all()

    gates = np.array([[1e30, 1e30, -1e30, 1e30]], np.float32)
    fast_lstm.cell(gates, nothing, nothing[0], one * 0, cells, state)

    np.testing.assert_allclose(gates, [[1, 1, -1, 1]], rtol=2e-7)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("batch", "width"), [(8, 33), (13, 50), (16, 128)])
def test_all_steps_at_once_are_those_one_by_one(batch: int, width: int, reverse: bool) -> None:
    order = np.arange(5)[::-1].copy() if reverse else np.arange(5)
    shape, wide = (5, batch, width), (5, batch, 4 * width)
    gates, weight = normal(0, *wide), normal(1, 4 * width, width) / 8
    start, bias = [normal(i, batch, width) for i in (2, 3)], normal(4, 4 * width)
    start[0][0, 1] = np.nan
    forward, backward = [], []
    for room, part in ((fast_lstm, (0, batch)), (lstm, ())):
        sums, made = gates.copy(), [np.empty(shape, np.float32) for _ in range(2)]
        room.steps_forward(sums, weight, bias, *start, *made, order, *part)
        forward.append([sums, *made])
    sums, cells, _ = forward[1]
    for room, part in ((fast_lstm, (0, batch)), (lstm, ())):
        given = [normal(i, batch, width) for i in (5, 6)]
        out = np.empty(wide, np.float32)
        rest = (start[1], cells, normal(7, *shape), *given, out, order[::-1].copy(), *part)
        room.steps_backward(sums, normal(8, 4 * width, width) / 8, *rest)
        backward.append([*given, out])

    for runs in (forward, backward):
        for found, expected in zip(*runs, strict=True):
            assert np.isnan(expected).any()
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("reverse", [False, True])
def test_a_layer_by_tiles_is_the_layer_in_float64(
    reverse: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Large enough that tiles make it, with a batch that does not fill them."""
    shapes = [(20, 11, 24), (320, 24), (320, 80), (320,), (320,), (11, 80), (11, 80)]
    begun: list[str] = []
    fast = lstm.fast()
    monkeypatch.setattr(lstm, "fast", lambda: (begun.append("asked"), fast)[1])
    found = []
    for kind in (np.float32, np.float64):
        x, *weights, state, cells = [
            (normal(i, *shape) / 4).astype(kind) for i, shape in enumerate(shapes)
        ]
        learned = lstm.Weights(*weights)
        outputs, last, last_cells, workspace = lstm.forward(
            x, learned, state, cells, reverse=reverse
        )
        grads = [np.ones_like(each) for each in (outputs, last, last_cells)]
        first = (state, cells)
        words = (grads, x, learned, first, outputs, workspace, [True] * 7)
        found.append([outputs, last, last_cells, *lstm.backward(*words, reverse=reverse)])

    assert len(begun) == 2
    for mine, known in zip(*found, strict=True):
        assert mine is not None
        assert known is not None
        scale = np.abs(known).max()
        np.testing.assert_allclose(mine / scale, known / scale, rtol=0, atol=3e-6)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("width", [21, 50, 128])
@pytest.mark.parametrize("batch", [8, 9, 13, 16, 17, 24, 31, 33])
def test_a_layer_has_the_same_bits_in_any_number_of_threads(
    batch: int, width: int, reverse: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lstm, "LARGE", 1)
    monkeypatch.setattr(spread, "LEAST", 1)
    monkeypatch.setattr(spread, "WAKING", 0)
    monkeypatch.setattr(spread, "WORTH", float("inf"))
    cut: list[int] = []
    run = spread._run
    monkeypatch.setattr(spread, "_run", lambda *a: (cut.append(len(a[1])), run(*a))[1])
    wide, steps = 4 * width, 3
    shapes = [(steps, batch, 5), (wide, 5), (wide, width), (wide,), (wide,), *[(batch, width)] * 2]
    x, *weights, state, cells = [normal(i, *shape) / 4 for i, shape in enumerate(shapes)]
    learned, first = lstm.Weights(*weights), (state, cells)
    found, before = [], spread._State.threads
    for threads in (1, 2, 3):
        spread.set_kernel_threads(threads)
        made = lstm.forward(x, learned, *first, reverse=reverse)
        grads = [normal(9, *each.shape) for each in made[:3]]
        words = (grads, x, learned, first, made[0], made[3], [True] * 7)
        back = lstm.backward(*words, reverse=reverse)
        found.append([each.tobytes() for each in (*made, *back) if each is not None])
    spread.set_kernel_threads(before)

    assert max(cut, default=1) == min(3, -(-batch // fast_lstm.ROWS))
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize(
    ("batch", "width", "threads", "way"),
    [
        (16, 512, 1, "tiles"),
        (16, 512, 4, "tiles"),
        (16, 512, 5, "BLAS"),
        (64, 512, 16, "tiles"),
        (16, 256, 64, "tiles"),
        (8, 1024, 3, "BLAS"),
        (7, 1024, 1, "BLAS"),
    ],
)
def test_blas_makes_what_many_of_its_threads_make_sooner(
    batch: int, width: int, threads: int, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    kernels = SimpleNamespace(steps_forward=lambda *arrays: made.append("tiles"))
    monkeypatch.setattr(tiles, "fast_lstm", kernels)
    monkeypatch.setattr(tiles, "spread", lambda part, count, cost, multiple: part(0, count))
    monkeypatch.setattr(spread._State, "threads", threads)

    def steps_forward(*arrays: Array) -> None:
        made.append("BLAS")

    lstm._run(steps_forward, np.zeros((9, batch, 4 * width), np.float32))

    assert set(made) == {way}


@pytest.mark.parametrize("reverse", [False, True])
def test_the_gradient_of_a_layer_is_that_of_differences(reverse: bool) -> None:
    shapes = [(4, 2, 3), (20, 3), (20, 5), (20,), (20,), (2, 5), (2, 5)]
    given = [normal(i, *shape).astype(np.float64) for i, shape in enumerate(shapes)]
    shaped = [(4, 2, 5), (2, 5), (2, 5)]
    grads = [normal(10 + i, *shape).astype(np.float64) for i, shape in enumerate(shaped)]

    def layer(arrays: list[Array]) -> tuple[Array, Array, Array, Array]:
        x, *weights, state, cells = arrays
        return lstm.forward(x, lstm.Weights(*weights), state, cells, reverse=reverse)

    def loss(arrays: list[Array]) -> float:
        return float(sum((a * g).sum() for a, g in zip(layer(arrays)[:3], grads, strict=True)))

    outputs, _, _, workspace = layer(given)
    x, *weights, state, cells = given
    found = lstm.backward(
        grads,
        x,
        lstm.Weights(*weights),
        (state, cells),
        outputs,
        workspace,
        [True] * 7,
        reverse=reverse,
    )

    for i, gradient in enumerate(found):
        direction = np.random.default_rng(20 + i).normal(size=given[i].shape)
        ahead, behind = (
            [a + sign * 1e-6 * direction if j == i else a for j, a in enumerate(given)]
            for sign in (1, -1)
        )
        difference = (loss(ahead) - loss(behind)) / 2e-6
        assert gradient is not None
        np.testing.assert_allclose((gradient * direction).sum(), difference, rtol=1e-6)
