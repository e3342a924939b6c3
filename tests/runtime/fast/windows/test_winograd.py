"""Convolutions with fewer products against those by columns, and against PyTorch."""

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

SIZES = [
    # size, padding, channels, out channels, images
    ((2, 2), (1, 1), 8, 8, 1),
    ((7, 7), (0, 0), 19, 9, 3),
    ((4, 4), (1, 1), 33, 40, 5),
    ((5, 9), (2, 1), 70, 65, 2),
    ((6, 35), (0, 2), 65, 130, 1),
    ((3, 3), (0, 0), 8, 16, 70),
]
"""With images that end inside a patch, and channels and patches that fill no vector or block."""


def cases(dtype: Any) -> list[Case]:
    every = [
        Case((size, (3, 3), (1, 1), padding, (1, 1), 1, channels, made), dtype, images)
        for size, padding, channels, made, images in SIZES
    ]
    assert all(winograd.wins(c.x.shape, len(c.weight), c.windows, 1, c.x.dtype) for c in every)
    return every


@pytest.fixture
def every(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of these go the way with fewer products, in several blocks."""
    monkeypatch.setattr(winograd, "FEWEST", (8, 1))
    monkeypatch.setattr(winograd, "FILLED", 0)
    monkeypatch.setattr(winograd, "MANY", 1)
    monkeypatch.setattr(convolution, "MANY", 1)
    monkeypatch.setattr(winograd, "PART", 16)
    monkeypatch.setattr(winograd, "ROWS", 8)
    monkeypatch.setattr(winograd, "NUMBERS", 1 << 15)
    monkeypatch.setattr(winograd, "TOGETHER", 20)


def by_columns(case: Case, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    with monkeypatch.context() as patched:
        patched.setattr(convolution, "_tiles_pay", lambda *_: False)
        let_all_be(False, patched)
        return case.results()


@pytest.mark.usefixtures("every")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_fewer_products_make_what_columns_do(dtype: Any, monkeypatch: Any) -> None:
    tolerance = 2e-5 if dtype is np.float32 else 1e-13
    monkeypatch.setattr(direct, "tiles", lambda: pytest.fail("another way was taken"))
    for case in cases(dtype):
        known = by_columns(case, monkeypatch)
        for found, wanted in zip(case.results(), known, strict=True):
            scale = np.abs(wanted).max()
            np.testing.assert_allclose(found / scale, wanted / scale, atol=tolerance)


@pytest.mark.usefixtures("every")
def test_where_infinities_would_meet_another_way_is_taken(monkeypatch: Any) -> None:
    case = cases(np.float32)[3]
    case.x[1, 3, 2, 2:5], case.weight[4, 1] = np.inf, np.inf
    case.grad[1, 2, 1], case.grad[0, 5, 0, 0] = -np.inf, np.nan
    with np.errstate(all="ignore"):
        known = by_columns(case, monkeypatch)
        for found, wanted in zip(case.results(), known, strict=True):
            np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted))
            np.testing.assert_array_equal(np.isinf(found), np.isinf(wanted))


@pytest.mark.usefixtures("every")
def test_where_a_window_sees_only_zeros_there_is_zero(monkeypatch: Any) -> None:
    case = cases(np.float32)[4]
    case.x[...], case.x[:, :, 3, 20:] = 0, case.x[:, :, 3, 20:]

    made, known = case.results()[0], by_columns(case, monkeypatch)[0]

    np.testing.assert_array_equal(made == 0, known == 0)


@pytest.mark.usefixtures("every")
def test_results_have_the_same_bits_in_any_number_of_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runs: list[int] = []
    run = spread._run
    before = spread._State.threads
    monkeypatch.setattr(spread, "LEAST", 1)
    monkeypatch.setattr(spread, "WAKING", 0)
    monkeypatch.setattr(spread, "WORTH", float("inf"))
    monkeypatch.setattr(spread, "_run", lambda *a: (runs.append(len(a[1])), run(*a))[1])
    try:
        for case in cases(np.float32):
            found = []
            for threads in (1, 2, 3):
                set_kernel_threads(threads)
                found.append([made.tobytes() for made in case.results()])
            assert found[0] == found[1] == found[2], case.x.shape
    finally:
        set_kernel_threads(before)
    assert set(runs) == {2, 3}


def test_what_gains_nothing_is_left_to_others() -> None:
    def wins(channels: int, made: int, side: int, images: int = 4, **other: Any) -> bool:
        how = {"kernel": (3, 3), "stride": (1, 1), "dilation": (1, 1), "groups": 1} | other
        rest = (how["kernel"], how["stride"], (1, 1), how["dilation"], how["groups"])
        case = Case(((side, side), *rest, channels, made), np.float32, images)
        return winograd.wins(case.x.shape, made, case.windows, how["groups"], case.x.dtype)

    assert wins(64, 64, 8)
    assert not wins(32, 64, 8)
    assert not wins(64, 64, 7, images=1)
    assert not wins(64, 64, 8, stride=(2, 2))
    assert not wins(64, 64, 8, dilation=(2, 2))
    assert not wins(64, 64, 8, kernel=(1, 3))
    assert not wins(64, 64, 8, groups=2)


LAYERS = [
    # images, channels, out channels, side
    (4, 64, 64, 16),
    (8, 96, 48, 9),
    (8, 256, 256, 4),
]


@pytest.mark.torch
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_layers_of_models_are_those_of_pytorch(dtype: str, monkeypatch: Any) -> None:
    monkeypatch.setattr(direct, "tiles", lambda: pytest.fail("another way was taken"))
    for images, channels, made, side in LAYERS:
        rng = np.random.default_rng(0)
        x = rng.normal(size=(images, channels, side, side)).astype(dtype)
        weight = rng.normal(size=(made, channels, 3, 3)).astype(dtype)
        found = []
        for name in ("gradscope.runtime", "torch"):
            torch = import_module(name)
            given = [torch.tensor(each, requires_grad=True) for each in (x, weight)]
            out = torch.nn.functional.conv2d(*given, None, 1, 1)
            rng = np.random.default_rng(1)  # not of the results: each engine rounds its own
            out.backward(torch.tensor(rng.normal(size=out.shape).astype(dtype)))
            found.append([out.detach().numpy(), *(each.grad.numpy() for each in given)])
        for mine, known in zip(*found, strict=True):
            scale = np.abs(known).max()
            tolerance = 3e-5 if dtype == "float32" else 1e-12
            np.testing.assert_allclose(mine / scale, known / scale, rtol=0, atol=tolerance)
