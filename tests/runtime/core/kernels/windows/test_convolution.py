"""Compiled windows against plain ones, and blocks of columns against all at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gradscope.runtime.core.kernels.support import Family
from gradscope.runtime.core.kernels.windows import convolution, windows as w
from gradscope.runtime.core.kernels.windows.convolution import forward, to_bias, to_input, to_weight

GEOMETRIES = [
    # size, kernel, stride, padding, dilation, groups, channels, out channels
    ((7,), (3,), (1,), (1,), (1,), 1, 2, 3),
    ((9,), (4,), (3,), (5,), (2,), 1, 2, 3),
    ((5, 6), (3, 2), (1, 1), (0, 0), (1, 1), 1, 3, 2),
    ((5, 6), (3, 3), (2, 1), (1, 3), (1, 2), 2, 4, 6),
    ((1, 2), (3, 3), (1, 1), (1, 1), (1, 1), 1, 3, 4),
    ((6, 5), (1, 1), (1, 1), (0, 0), (1, 1), 1, 3, 4),
    ((6, 5), (1, 1), (2, 2), (0, 0), (1, 1), 1, 3, 4),
    ((6, 5), (3, 3), (1, 2), (1, 1), (1, 1), 4, 4, 4),
    ((6, 5), (2, 3), (2, 1), (1, 0), (2, 1), 3, 3, 6),
    ((3, 4, 5), (2, 3, 2), (1, 2, 1), (1, 0, 2), (1, 1, 2), 1, 2, 3),
    ((3, 4, 5), (2, 2, 2), (2, 1, 2), (1, 1, 1), (1, 2, 1), 2, 2, 4),
]


class Case:
    """Images, a weight, gradients, and the windows over the images."""

    def __init__(self, geometry: Any, dtype: Any, images: int = 3) -> None:
        size, kernel, stride, padding, dilation, self.groups, channels, made = geometry
        out = tuple(
            (n + 2 * p - d * (k - 1) - 1) // s + 1
            for n, k, s, p, d in zip(size, kernel, stride, padding, dilation, strict=True)
        )
        rng = np.random.default_rng(0)
        self.windows = w.windows(size, kernel, out, stride, padding, dilation)
        self.x = rng.normal(size=(images, channels, *size)).astype(dtype)
        self.weight = rng.normal(size=(made, channels // self.groups, *kernel)).astype(dtype)
        self.grad = rng.normal(size=(images, made, *out)).astype(dtype)

    def results(self) -> list[Any]:
        over, groups = self.windows, self.groups
        return [
            forward(self.x, self.weight, over, groups),
            to_input(self.grad, self.weight, over, groups),
            to_weight(self.grad, self.x, over, groups),
        ]


def let_all_be(large: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(w, "_is_large", lambda *_: large)
    monkeypatch.setattr(convolution, "is_large", lambda *_: large)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_compiled_kernels_do_what_numpy_does(
    geometry: Any, dtype: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = Case(geometry, dtype)
    let_all_be(False, monkeypatch)
    plain = case.results()
    let_all_be(True, monkeypatch)
    fast = case.results()

    tolerance = 1e-4 if dtype is np.float32 else 1e-12
    for found, expected in zip(fast, plain, strict=True):
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("together", [1, 1000])
@pytest.mark.parametrize("scratch", [1, 90, 1 << 20])
def test_however_the_columns_are_divided_the_results_are_the_same(
    scratch: int, together: int, large: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for geometry in (GEOMETRIES[3], GEOMETRIES[9]):
        case = Case(geometry, np.float64)
        let_all_be(False, monkeypatch)
        expected = case.results()
        let_all_be(large, monkeypatch)
        monkeypatch.setattr(w, "SCRATCH", scratch)
        monkeypatch.setattr(w, "WHOLE", 1)
        monkeypatch.setattr(convolution, "TOGETHER", together)
        for one, other in zip(case.results(), expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)
        monkeypatch.undo()


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_the_gradients_are_the_transposes_of_the_forward(geometry: Any) -> None:
    case = Case(geometry, np.float64)
    made, to_x, to_w = case.results()

    there = (made.reshape(case.grad.shape) * case.grad).sum()

    assert (to_x.reshape(case.x.shape) * case.x).sum() == pytest.approx(there)
    assert (to_w.reshape(case.weight.shape) * case.weight).sum() == pytest.approx(there)


def test_the_columns_of_small_images_never_need_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise AssertionError("asked for Numba")

    monkeypatch.setattr(w, "FAST", Family("windows.im2col", few=w.LARGE >> 4))
    monkeypatch.setattr(w.FAST, "_read", refuse)
    monkeypatch.setattr(convolution, "depthwise", refuse)
    monkeypatch.setattr(convolution, "by_tiles", refuse)

    assert len(Case(GEOMETRIES[3], np.float32).results()) == 3


def test_the_bias_takes_the_sum_over_images_and_places() -> None:
    grad = np.arange(24.0).reshape(2, 3, 4)

    np.testing.assert_array_equal(to_bias(grad), grad.sum((0, 2)))
