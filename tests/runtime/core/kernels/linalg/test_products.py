"""Products by tiles against NumPy's: as matrices lie, with tails, in several threads."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any

import numpy as np
import pytest

from gradscope.runtime.core.kernels.linalg import products
from gradscope.runtime.fast.threads import spread
from gradscope.runtime.fast.threads.spread import set_kernel_threads

SHAPES = [(8, 1, 1), (9, 3, 47), (23, 300, 49), (64, 17, 96), (1030, 5, 33), (40, 600, 411)]


@pytest.fixture
def every(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """All products are made by tiles."""
    monkeypatch.setattr(products, "MANY", 1)
    monkeypatch.setattr(products, "FEWEST", (8, 1, 1))
    products._way.cache_clear()
    before = spread._State.threads
    yield
    set_kernel_threads(before)
    products._way.cache_clear()


def matrices(shape: tuple[int, int, int], dtype: Any) -> Iterator[tuple[Any, Any]]:
    """A left and a right matrix, which lie in order, transposed, or far apart."""
    rng = np.random.default_rng(0)
    rows, count, columns = shape
    made = rng.normal(size=(rows, count)).astype(dtype), rng.normal(size=(count, columns))
    for left in (made[0], np.asfortranarray(made[0]), np.repeat(made[0], 2, 1)[:, ::2]):
        for right in (made[1].astype(dtype), np.asfortranarray(made[1].astype(dtype))):
            yield left, right


@pytest.mark.usefixtures("every")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_tiles_make_the_products_that_blas_makes(dtype: Any) -> None:
    tolerance = 1e-5 if dtype is np.float32 else 1e-13
    for shape in SHAPES:
        for left, right in matrices(shape, dtype):
            made = products.product(left, right)
            assert made.dtype == dtype
            assert made.flags.c_contiguous
            np.testing.assert_allclose(
                made, left @ right, rtol=tolerance, atol=tolerance * shape[1] ** 0.5
            )


@pytest.mark.usefixtures("every")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_vector_is_added_to_each_row_however_the_product_is_made(dtype: Any) -> None:
    tolerance = 1e-5 if dtype is np.float32 else 1e-13
    for shape in SHAPES:
        bias = np.random.default_rng(1).normal(size=shape[2]).astype(dtype) * 100
        for left, right in matrices(shape, dtype):
            made = products.product(left, right, None, bias)
            known = (left.astype(np.float64) @ right + bias).astype(dtype)
            np.testing.assert_allclose(made, known, rtol=tolerance, atol=tolerance * 100)


@pytest.mark.usefixtures("every")
def test_what_is_not_finite_stays_in_its_row_and_column() -> None:
    left, right = next(matrices(SHAPES[2], np.float32))
    left[3, 7], left[22, 0], right[299, 48] = np.nan, np.inf, -np.inf

    made, known = products.product(left, right), left @ right

    np.testing.assert_array_equal(np.isnan(made), np.isnan(known))
    np.testing.assert_array_equal(np.isinf(made), np.isinf(known))


@pytest.mark.usefixtures("every")
def test_a_product_has_the_same_bits_in_any_number_of_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(spread, "LEAST", 1)
    monkeypatch.setattr(spread, "WAKING", 0)
    monkeypatch.setattr(spread, "WORTH", float("inf"))
    runs: list[int] = []
    run = spread._run
    monkeypatch.setattr(spread, "_run", lambda *a: (runs.append(len(a[1])), run(*a))[1])
    for shape in SHAPES[2:]:
        for left, right in matrices(shape, np.float32):
            found, left_sum = [], np.resize(left.sum(0), shape[2])
            for threads in (1, 2, 3):
                set_kernel_threads(threads)
                made = products.product(left, right), products.product(left, right, None, left_sum)
                found.append([each.tobytes() for each in made])
            assert found[0] == found[1] == found[2], shape
    assert set(runs) == {2, 3}


def test_what_is_small_thin_or_of_another_kind_is_left_to_blas(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse() -> None:
        raise AssertionError("asked for Numba")

    monkeypatch.setattr(products, "tiles", refuse)
    for shape, dtype in [
        ((64, 64, 64), np.float32),
        ((31, 900, 900), np.float32),
        ((900, 63, 900), np.float32),
        ((900, 900, 15), np.float32),
        ((200, 200, 200), np.complex64),
    ]:
        left, right = (np.ones(size, dtype) for size in (shape[:2], shape[1:]))
        assert products.product(left, right)[0, 0] == shape[1]
    with pytest.raises(ValueError, match="not aligned"):
        products.product(np.ones((300, 300)), np.ones((301, 300)))


@pytest.mark.torch
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_linear_layers_are_those_of_pytorch(dtype: str, monkeypatch: Any) -> None:
    begun: list[Any] = []
    tiles = products.tiles
    monkeypatch.setattr(products, "tiles", lambda: (begun.append(1), tiles())[1])
    for shape, made in [((64, 784), 256), ((8, 64, 128), 384), ((70, 333), 222)]:
        rng = np.random.default_rng(0)
        x, weight = rng.normal(size=shape), rng.normal(size=(made, shape[-1]))
        bias, found = rng.normal(size=made), []
        grad = rng.normal(size=(*shape[:-1], made))
        begun.clear()
        for name in ("gradscope.runtime", "torch"):
            torch = import_module(name)
            given = [
                torch.tensor(each.astype(dtype), requires_grad=True) for each in (x, weight, bias)
            ]
            out = torch.nn.functional.linear(*given)
            out.backward(torch.tensor(grad.astype(dtype)))
            found.append([out.detach().numpy(), *(each.grad.numpy() for each in given)])
        assert len(begun) == 3
        for mine, known in zip(*found, strict=True):
            scale = np.abs(known).max()
            tolerance = 3e-6 if dtype == "float32" else 1e-14
            np.testing.assert_allclose(mine / scale, known / scale, rtol=0, atol=tolerance)
