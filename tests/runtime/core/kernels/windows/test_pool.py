"""Poolings: the compiled kernels give what plain NumPy gives, and that is what is meant."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from gradscope.runtime.core.kernels.support import LARGE
from gradscope.runtime.core.kernels.windows import pool, spans

sizes = st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(0, 1), st.integers(1, 2))
DTYPES = [np.float32, np.float64]


def windows_of(size: int, kernel: int, stride: int, padding: int, dilation: int) -> spans.PoolSpan:
    return spans.regular(size, kernel, stride, min(padding, kernel // 2), dilation, True, False)


def numbers(shape: tuple[int, ...], dtype: Any) -> Any:
    """Few different numbers, so that several are the greatest, and some that are none."""
    made = np.random.default_rng(0).integers(-3, 4, shape).astype(dtype)
    made.reshape(-1)[::97] = np.nan
    made.reshape(-1)[::89] = -np.inf
    return made


@pytest.mark.parametrize("dtype", DTYPES)
@given(sizes, sizes, sizes)
def test_compiled_poolings_give_what_plain_ones_give(
    dtype: Any, depth: Any, height: Any, width: Any
) -> None:
    x = numbers((2, 4, 7, 8), dtype)
    given = [windows_of(size, *one) for size, one in zip(x.shape[1:], (depth, height, width))]
    shape = (2, *(span.out for span in given))
    values, where = np.empty(shape, dtype), np.empty(shape, np.int64)
    mean, back = np.empty(shape, dtype), np.zeros(x.shape, dtype)
    grad = numbers(shape, dtype)
    added = np.zeros((2, x[0].size), dtype)
    fast = pool.FAST.kernels

    fast.max_pool(x, values, where, tuple(given))
    fast.add_in_planes(added, where.reshape(2, -1), grad.reshape(2, -1))

    plain_values, plain_where = pool.max_pool_plain(x, given)
    np.testing.assert_array_equal(values, plain_values)
    np.testing.assert_array_equal(where, plain_where)
    slowly = np.zeros_like(added)
    for plane in range(2):
        np.add.at(slowly[plane], where[plane].reshape(-1), grad[plane].reshape(-1))
    np.testing.assert_array_equal(added, slowly)
    if all(span.step == 1 for span in given):
        for divisor in (0, 3):
            back[...] = 0
            fast.avg_pool(x, mean, tuple(given), divisor)
            fast.avg_pool_backward(grad, back, tuple(given), divisor)
            np.testing.assert_allclose(
                mean, pool.avg_pool_plain(x, given, divisor or None), rtol=1e-6
            )
            expected = pool.avg_pool_backward_plain(grad, x.shape, given, divisor or None)
            np.testing.assert_allclose(back, expected, rtol=1e-5, atol=1e-6)


def test_the_most_usual_windows_have_a_kernel_that_agrees_with_all_others() -> None:
    x = numbers((3, 1, 9, 11), np.float32)
    usual = (spans.WHOLE, spans.regular(9, 2, 2), spans.regular(11, 2, 2))
    values, where = np.empty((3, 1, 4, 5), np.float32), np.empty((3, 1, 4, 5), np.int64)

    pool.FAST.kernels.max_pool(x, values, where, usual)

    plain = pool.max_pool_plain(x[:, 0], usual[1:])
    np.testing.assert_array_equal(values[:, 0], plain[0])
    np.testing.assert_array_equal(where[:, 0], plain[1])


@pytest.mark.parametrize("size", [1, 5, 6, 12])
@pytest.mark.parametrize("out", [1, 2, 5, 6, 9])
def test_adaptive_windows_cover_the_dim(size: int, out: int) -> None:
    span = spans.adaptive(size, out)
    x = np.random.default_rng(0).normal(size=(2, size))

    means = [x[:, a:b].mean(1) for a, b in zip(span.starts[0], span.ends[0], strict=True)]

    seen = {i for a, b in zip(span.starts[0], span.ends[0], strict=True) for i in range(a, b)}
    assert seen == set(range(size))
    np.testing.assert_allclose(pool.avg_pool_plain(x, [span]), np.stack(means, 1))


def test_many_elements_take_the_compiled_way_and_give_the_same() -> None:
    x = numbers((LARGE // 256, 16, 16), np.float32)
    given = [spans.regular(16, 3, 2, 1), spans.adaptive(16, 7)]
    grad = numbers((len(x), 8, 7), np.float32)

    values, where = pool.max_pool(x, given)
    back = pool.max_pool_backward(grad, where, x.shape, 2)

    plain_values, plain_where = pool.max_pool_plain(x, given)
    np.testing.assert_array_equal(values, plain_values)
    np.testing.assert_array_equal(where, plain_where)
    few = pool.max_pool_backward(grad[:1], where[:1], x[:1].shape, 2)
    np.testing.assert_array_equal(back[:1], few)
    np.testing.assert_allclose(
        pool.avg_pool(x[:, 1:], [given[1], given[1]][:1]),
        pool.avg_pool_plain(x[:, 1:], [given[1]]),
        rtol=1e-6,
    )
