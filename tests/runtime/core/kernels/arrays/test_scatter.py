"""Adding at repeated places: PyTorch's sums bit for bit, small by NumPy and large by Numba."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, strategies as st

from gradscope.runtime.core.kernels.arrays import scatter
from gradscope.runtime.core.kernels.support import LARGE, fast

DTYPES = [np.float16, np.float32, np.float64, np.int64, np.int32, np.complex64]


def numbers(shape: tuple[int, ...], dtype: Any, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(0, 10, shape).astype(dtype)


@pytest.mark.torch
@pytest.mark.parametrize(
    ("dim", "dtype"),
    # Along a middle dim PyTorch rounds halves at every step; along the others once, as we do.
    [(d, t) for d in (0, 1, -1) for t in DTYPES if (d, t) != (1, np.float16)],
)
def test_index_add_gives_pytorchs_bits(dim: int, dtype: Any) -> None:
    import torch

    rng = np.random.default_rng(1)
    out = numbers((5, 6, 7), dtype)
    index = rng.integers(0, out.shape[dim], 20)
    shape = list(out.shape)
    shape[dim] = 20
    source = numbers(tuple(shape), dtype, 2)
    theirs = torch.tensor(out).index_add_(dim, torch.tensor(index), torch.tensor(source))
    scatter.index_add(out, dim, index, source)
    np.testing.assert_array_equal(out, theirs.numpy())


@pytest.mark.torch
@pytest.mark.parametrize("dtype", DTYPES)
@given(st.integers(0, 2), st.tuples(*[st.integers(1, 4)] * 3), st.integers(0, 9))
def test_scatter_add_gives_pytorchs_bits(
    dtype: Any, dim: int, shape: tuple[int, int, int], seed: int
) -> None:
    import torch

    out, source = numbers((4, 5, 6), dtype), numbers((4, 5, 6), dtype, 2)
    index = np.random.default_rng(seed).integers(0, out.shape[dim], shape)
    theirs = torch.tensor(out).scatter_add_(dim, torch.tensor(index), torch.tensor(source))
    scatter.scatter_add(out, dim, index, source)
    np.testing.assert_array_equal(out, theirs.numpy())


def test_adding_into_a_strided_view_reaches_its_base() -> None:
    base = np.zeros((4, 6))
    scatter.index_add(base[:, ::2], 0, np.array([1, 1]), np.ones((2, 3)))
    scatter.scatter_add(base.T, 0, np.array([[0, 1], [0, 1]]), np.ones((2, 2)))
    assert base.sum(axis=1).tolist() == [2.0, 8.0, 0.0, 0.0]
    assert base[:2].tolist() == [[2, 0, 0, 0, 0, 0], [2, 2, 2, 0, 2, 0]]


def test_bfloat16_and_dimensionless_arrays_are_added_to() -> None:
    out = np.zeros((3,), ml_dtypes.bfloat16)
    scatter.index_add(out, 0, np.array([1, 1]), np.ones(2, ml_dtypes.bfloat16))
    assert out.tolist() == [0.0, 2.0, 0.0]
    point = np.zeros(())
    scatter.index_add(point, 0, np.array([0]), np.array([2.0]))
    scatter.scatter_add(point, 0, np.array(0), np.array(3.0))
    assert point == 5.0


@pytest.mark.parametrize("bad", [3, -1])
def test_an_index_outside_is_refused_before_anything_is_written(bad: int) -> None:
    out = np.zeros((3, 2))
    message = f"index {bad} is out of bounds for dimension 0 with size 3"
    with pytest.raises(RuntimeError, match=message):
        scatter.index_add(out, 0, np.array([0, bad]), np.ones((2, 2)))
    with pytest.raises(RuntimeError, match=message):
        scatter.scatter_add(out, 0, np.array([[0, bad]]), np.ones((1, 2)))
    assert not out.any()


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_numba_adds_large_sources_in_numpys_order(dtype: Any) -> None:
    rows = numbers((LARGE // 32, 32), dtype)
    index = np.random.default_rng(3).integers(0, 50, len(rows))
    ours, expected = np.zeros((50, 32), dtype), np.zeros((50, 32), dtype)
    scatter.index_add(ours, 0, index, rows)
    np.add.at(expected, index, rows)
    np.testing.assert_array_equal(ours, expected)

    flat, flat_expected = np.zeros(32, dtype), np.zeros(32, dtype)
    scatter.put_add(flat, np.resize(np.arange(32), rows.size), rows)
    np.add.at(flat_expected, np.resize(np.arange(32), rows.size), rows.reshape(-1))
    np.testing.assert_array_equal(flat, flat_expected)
    assert {fast().put_add.signatures != [], fast().add_rows.signatures != []} == {True}
