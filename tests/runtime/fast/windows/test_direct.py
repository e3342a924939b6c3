"""Convolutions by tiles against those by columns, which NumPy multiplies."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import pytest

from gradscope.runtime.core.kernels.windows import convolution
from gradscope.runtime.fast.threads import spread
from gradscope.runtime.fast.threads.spread import set_kernel_threads
from gradscope.runtime.fast.windows import direct, winograd
from tests.runtime.core.kernels.windows.test_convolution import Case, let_all_be

GEOMETRIES = [
    # size, kernel, stride, padding, dilation, groups, channels, out channels
    ((9,), (3,), (1,), (1,), (1,), 1, 8, 11),
    ((5, 6), (3, 3), (1, 1), (1, 1), (1, 1), 1, 19, 8),
    ((7, 8), (3, 3), (2, 2), (1, 1), (1, 1), 1, 16, 24),
    ((8, 33), (1, 1), (1, 1), (0, 0), (1, 1), 1, 35, 9),
    ((9, 8), (1, 1), (2, 2), (0, 0), (1, 1), 1, 16, 16),
    ((11, 9), (5, 3), (3, 3), (2, 0), (1, 1), 2, 20, 18),
    ((11, 12), (3, 3), (2, 2), (2, 3), (2, 2), 1, 9, 10),
    ((12, 11), (2, 3), (1, 1), (0, 1), (3, 2), 2, 32, 16),
    ((13, 9), (7, 7), (2, 2), (3, 3), (1, 1), 1, 3, 8),
    ((40, 30), (3, 3), (1, 1), (1, 1), (1, 1), 1, 67, 8),
    ((2, 1100), (3, 3), (1, 1), (1, 1), (1, 1), 1, 8, 8),
]
"""Of all strides, with channels, windows and images that fill no tile or vector."""


@pytest.fixture(autouse=True)
def only_direct(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing goes the way with fewer products."""
    monkeypatch.setattr(winograd, "wins", lambda *_: False)


@pytest.fixture
def by_tiles(monkeypatch: pytest.MonkeyPatch) -> Any:
    """What makes all three results of a case: tiles where they can, then NumPy."""
    begun: list[Any] = []
    ready = direct.tiles()

    def noted() -> Any:
        begun.append(ready)
        return ready

    def results(case: Case) -> list[Any]:
        begun.clear()
        monkeypatch.setattr(convolution, "MANY", 1)
        monkeypatch.setattr(direct, "tiles", noted)
        found = case.results()
        assert begun
        return found

    def plain(case: Case) -> list[Any]:
        monkeypatch.setattr(convolution, "_tiles_pay", lambda *_: False)
        let_all_be(False, monkeypatch)
        found = case.results()
        monkeypatch.undo()
        return found

    return results, plain


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_tiles_do_what_columns_do(dtype: Any, by_tiles: Any) -> None:
    tolerance = 2e-5 if dtype is np.float32 else 1e-13
    for geometry in GEOMETRIES:
        for images in (1, 5):
            case = Case(geometry, dtype, images)
            for found, known in zip(by_tiles[0](case), by_tiles[1](case), strict=True):
                scale = np.abs(known).max()
                np.testing.assert_allclose(found / scale, known / scale, atol=tolerance)


def test_what_is_not_finite_goes_where_columns_take_it(by_tiles: Any) -> None:
    for geometry in GEOMETRIES[1:4]:
        case = Case(geometry, np.float32)
        case.x[1, 3].flat[7], case.x[0, 5].flat[11] = np.nan, np.inf
        case.grad[1, 2].flat[3], case.weight[4, 1].flat[0] = -np.inf, np.nan
        with np.errstate(all="ignore"):
            for found, known in zip(by_tiles[0](case), by_tiles[1](case), strict=True):
                np.testing.assert_array_equal(np.isnan(found), np.isnan(known))
                np.testing.assert_array_equal(np.isinf(found), np.isinf(known))


def test_results_have_the_same_bits_in_any_number_of_threads(
    by_tiles: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs: list[int] = []
    run = spread._run
    before = spread._State.threads
    try:
        for geometry in GEOMETRIES:
            case, found = Case(geometry, np.float32, 4), []
            for threads in (1, 2, 3):
                monkeypatch.setattr(spread, "LEAST", 1)
                monkeypatch.setattr(spread, "WAKING", 0)
                monkeypatch.setattr(spread, "WORTH", float("inf"))
                monkeypatch.setattr(spread, "_run", lambda *a: (runs.append(len(a[1])), run(*a))[1])
                set_kernel_threads(threads)
                found.append([made.tobytes() for made in by_tiles[0](case)])
            assert found[0] == found[1] == found[2], geometry
    finally:
        set_kernel_threads(before)
    assert set(runs) == {2, 3}


SHAPES = [
    # images, channels, out channels, side, kernel, stride, padding, groups
    (8, 3, 64, 32, 3, 1, 1, 1),
    (4, 64, 64, 16, 3, 1, 1, 1),
    (4, 64, 128, 17, 3, 2, 1, 1),
    (8, 256, 256, 4, 3, 1, 1, 1),
    (2, 64, 128, 32, 1, 2, 0, 1),
    (1, 3, 64, 96, 7, 2, 3, 1),
    (2, 64, 96, 20, 5, 1, 2, 2),
]


@pytest.mark.torch
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_layers_of_models_are_those_of_pytorch(dtype: str, monkeypatch: Any) -> None:
    begun: list[Any] = []
    tiles = direct.tiles
    monkeypatch.setattr(direct, "tiles", lambda: (begun.append(1), tiles())[1])
    for images, channels, made, side, kernel, stride, padding, groups in SHAPES:
        rng = np.random.default_rng(0)
        x = rng.normal(size=(images, channels, side, side)).astype(dtype)
        weight = rng.normal(size=(made, channels // groups, kernel, kernel)).astype(dtype)
        found = []
        begun.clear()
        for name in ("gradscope.runtime", "torch"):
            torch = import_module(name)
            given = [torch.tensor(each, requires_grad=True) for each in (x, weight)]
            out = torch.nn.functional.conv2d(*given, None, stride, padding, 1, groups)
            rng = np.random.default_rng(1)  # not of the results: each engine rounds its own
            out.backward(torch.tensor(rng.normal(size=out.shape).astype(dtype)))
            found.append([out.detach().numpy(), *(each.grad.numpy() for each in given)])
        assert begun
        for mine, known in zip(*found, strict=True):
            scale = np.abs(known).max()
            tolerance = 3e-5 if dtype == "float32" else 1e-12
            np.testing.assert_allclose(mine / scale, known / scale, rtol=0, atol=tolerance)


def test_what_is_small_or_has_few_channels_is_left_to_columns() -> None:
    few, small = Case(GEOMETRIES[8], np.float32), Case(GEOMETRIES[1], np.float32)
    deep = Case(((3, 4, 5), (2, 3, 2), (1, 2, 1), (1, 0, 2), (1, 1, 2), 1, 8, 8), np.float32, 900)
    many = Case(((32, 32), (3, 3), (1, 1), (1, 1), (1, 1), 1, 16, 32), np.float32)

    assert convolution._tiles_pay(many.x, many.windows, 32)
    assert not convolution._tiles_pay(many.x.astype(np.int64), many.windows, 32)
    assert not convolution._tiles_pay(many.x, many.windows, 7)
    assert not convolution._tiles_pay(small.x, small.windows, 8)
    assert not convolution._tiles_pay(few.x, few.windows, 3)
    assert not convolution._tiles_pay(deep.x, deep.windows, 8)
    assert convolution.forward(small.x, small.weight, small.windows, 1).shape[1] == 8
