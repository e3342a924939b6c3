"""Factorisations by blocks: against PyTorch's, and the compiled panel against the plain one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gradscope.runtime.core.kernels.linalg import ldl, linalg
from gradscope.runtime.fast.linalg import fast_linalg

SHAPES = [
    (3, 3),
    (2, 5, 5),
    (7, 3),
    (3, 7),
    (100, 100),
    (90, 70),
    (2, 70, 90),
    (0, 3, 3),
    (2, 0, 0),
]


def numbers(shape: tuple[int, ...], dtype: Any = np.float64) -> Any:
    rng = np.random.default_rng(len(shape) + sum(shape))
    made = rng.normal(0, 1, shape)
    if np.dtype(dtype).kind == "c":
        made = made + 1j * rng.normal(0, 1, shape)
    return made.astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex128])
def test_the_compiled_panel_does_what_the_plain_one_does(dtype: Any) -> None:
    given = numbers((3, 40, 8), dtype)
    given[1, :, 2] = 0
    plain, fast = given.copy(), given.copy()
    swaps, others = np.zeros((3, 8), np.int64), np.zeros((3, 8), np.int64)

    linalg.plain_panel(plain, swaps)
    fast_linalg.panel(fast, others)

    np.testing.assert_array_equal(swaps, others)
    np.testing.assert_allclose(plain, fast, rtol=2e-4, atol=1e-5)


@pytest.mark.torch
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_lu_is_pytorchs(shape: tuple[int, ...], dtype: Any) -> None:
    import torch

    given = numbers(shape, dtype)
    factors, pivots, info = linalg.lu(given)
    theirs = torch.linalg.lu_factor_ex(torch.tensor(given))

    np.testing.assert_array_equal(pivots, theirs.pivots.numpy())
    np.testing.assert_array_equal(info, theirs.info.numpy())
    np.testing.assert_allclose(factors, theirs.LU.numpy(), atol=1e-8)


@pytest.mark.parametrize("size", [3, 100])
@pytest.mark.parametrize("upper", [True, False])
def test_a_triangle_is_solved_whatever_the_other_one_holds(size: int, upper: bool) -> None:
    a = numbers((2, size, size)) / size + np.eye(size)
    found = linalg.solve_triangular(a, numbers((size, 4)), upper)

    part = np.triu(a) if upper else np.tril(a)
    np.testing.assert_allclose(part @ found, np.broadcast_to(numbers((size, 4)), found.shape))


def test_a_zero_on_the_diagonal_gives_what_dividing_by_it_gives() -> None:
    found = linalg.solve_triangular(np.diag([1.0, 0.0]), np.ones((2, 1)), True)

    assert np.isinf(found[1, 0])


@pytest.mark.torch
@pytest.mark.parametrize("hermitian", [True, False])
@pytest.mark.parametrize("shape", [(2, 5, 5), (40, 40)])
def test_ldl_is_pytorchs(shape: tuple[int, ...], hermitian: bool) -> None:
    import torch

    given = numbers(shape, np.complex128)
    given = given + (linalg.adjoint(given) if hermitian else given.swapaxes(-1, -2))
    factors, pivots, _ = ldl.ldl_factor(given, hermitian)
    theirs = torch.linalg.ldl_factor(torch.tensor(given), hermitian=hermitian)
    right = numbers((shape[-1], 2), np.complex128)

    np.testing.assert_array_equal(pivots, theirs.pivots.numpy())
    np.testing.assert_allclose(np.tril(factors), np.tril(theirs.LD.numpy()), atol=1e-8)
    found = ldl.ldl_solve(factors, pivots, right, hermitian)
    np.testing.assert_allclose(given @ found, np.broadcast_to(right, found.shape), atol=1e-8)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 30.0])
def test_an_exponential_times_that_of_the_negative_is_one(scale: float) -> None:
    a = numbers((2, 4, 4)) * scale / 4
    product = linalg.matrix_exp(a) @ linalg.matrix_exp(-a)

    size = np.abs(linalg.matrix_exp(a)).max() * np.abs(linalg.matrix_exp(-a)).max()
    assert np.abs(product - np.eye(4)).max() < 1e-12 * size
