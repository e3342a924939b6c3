"""The sum that undoes a broadcast gives its shape, its dtype and its accuracy back."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as npst

from gradscope.runtime.core.kernels.arrays.reduce import BLOCK, sum_columns, sum_to_size


@given(npst.mutually_broadcastable_shapes(num_shapes=2, min_side=0, max_dims=4), st.data())
def test_summing_to_a_size_undoes_any_broadcast(shapes: Any, data: st.DataObject) -> None:
    target = shapes.input_shapes[0]
    elements = st.integers(-1000, 1000)
    array = data.draw(npst.arrays(np.int64, shapes.result_shape, elements=elements))
    leading = array.ndim - len(target)
    axes = [leading + i for i, n in enumerate(target) if n == 1 != array.shape[leading + i]]
    expected = array.sum(axis=(*range(leading), *axes), keepdims=True).reshape(target)

    for dtype in (np.int64, np.int32, np.float32, np.float64, ml_dtypes.bfloat16):
        total = sum_to_size(array.astype(dtype), target)
        assert (total.shape, total.dtype) == (target, np.dtype(dtype))
        if dtype != ml_dtypes.bfloat16:
            np.testing.assert_array_equal(total, expected)


def test_an_equal_size_gives_the_array_itself() -> None:
    array = np.ones((2, 3))
    assert sum_to_size(array, (2, 3)) is array


def test_half_precision_is_summed_in_float32() -> None:
    ones = np.ones((4096, 2), np.float16)
    np.testing.assert_array_equal(sum_to_size(ones, (2,)), np.full(2, 4096, np.float16))
    np.testing.assert_array_equal(sum_to_size(ones, ()), np.float16(8192))


@pytest.mark.parametrize("rows", [1, BLOCK, BLOCK + 1, 100 * BLOCK + 7])
@pytest.mark.parametrize("layout", ["C", "F"])
def test_long_columns_keep_float32s_digits(rows: int, layout: Any) -> None:
    matrix = np.random.default_rng(0).uniform(0, 1, (rows, 3)).astype(np.float32, order=layout)
    exact = matrix.astype(np.float64).sum(axis=0)
    np.testing.assert_allclose(sum_columns(matrix), exact, rtol=2e-6)


def test_infinite_and_missing_values_pass_through_a_sum() -> None:
    matrix = np.array([[np.inf, np.nan, 1.0], [1.0, 1.0, -np.inf]], np.float32)
    np.testing.assert_array_equal(sum_columns(matrix), [np.inf, np.nan, -np.inf])
