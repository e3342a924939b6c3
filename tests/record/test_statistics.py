"""Statistics of an array: the same whether it is looked at in one piece or in many."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as hnp

from gradscope.record import statistics as module
from gradscope.record.statistics import NOTHING, Statistics, statistics


def plainly(array: Any) -> tuple[Any, ...]:
    """The same, each number by itself, slowly."""
    flat = array.astype(np.float64).reshape(-1)
    finite = flat[np.isfinite(flat)]
    counts = (
        flat.size,
        int(np.isnan(flat).sum()),
        int(np.isposinf(flat).sum()),
        int(np.isneginf(flat).sum()),
        int((flat == 0).sum()),
    )
    bad = tuple(np.flatnonzero(~np.isfinite(flat))[:8].tolist())
    if not len(finite):
        return (*counts, *([float("nan")] * 5), bad)
    norm = float(np.sqrt((finite**2).sum()))
    measured = (finite.min(), finite.max(), finite.mean(), norm / np.sqrt(len(finite)), norm)
    return (*counts, *map(float, measured), bad)


def assert_same(found: Statistics, expected: tuple[Any, ...]) -> None:
    assert found[:5] == expected[:5]
    np.testing.assert_allclose(found[5:10], expected[5:10], rtol=1e-9, atol=1e-12)
    assert found[10] == expected[10]


numbers = st.one_of(
    st.floats(-(2.0**60), 2.0**60, width=32),
    st.sampled_from([0.0, -0.0, float("nan"), float("inf"), float("-inf")]),
)


@given(
    hnp.arrays(np.float32, hnp.array_shapes(min_dims=0, max_dims=3, max_side=5), elements=numbers)
)
def test_every_number_is_what_it_says(array: Any) -> None:
    assert_same(statistics(array), plainly(array))


@given(
    hnp.arrays(np.float64, st.integers(1, 60), elements=numbers),
    st.integers(1, 7),
)
def test_pieces_give_the_same_as_the_whole(array: Any, piece: int) -> None:
    before = module.SMALL, module.CHUNK
    module.SMALL, module.CHUNK = 0, piece
    try:
        found = statistics(array)
    finally:
        module.SMALL, module.CHUNK = before

    assert_same(found, plainly(array))


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.bool_, np.float16, ml_dtypes.bfloat16])
def test_numbers_of_every_kind(dtype: Any) -> None:
    array = np.array([0, 1, 1, 1]).astype(dtype)

    assert_same(statistics(array), (4, 0, 0, 0, 1, 0.0, 1.0, 0.75, np.sqrt(0.75), np.sqrt(3), ()))


def test_complex_numbers_are_measured_by_their_magnitudes() -> None:
    array = np.array([3 + 4j, 0, complex("nan"), complex("inf")])

    assert_same(statistics(array), (4, 1, 1, 0, 1, 0.0, 5.0, 2.5, np.sqrt(12.5), 5.0, (2, 3)))


def test_sums_that_overflow_do_not_spoil_mean_and_norm() -> None:
    with np.errstate(all="ignore"):  # as in every thread of the runtime
        found = statistics(np.array([1e308, 1e308, -1e308]))

    np.testing.assert_allclose(found.mean, 1e308 / 3)
    np.testing.assert_allclose(found.rms, 1e308)
    assert found.norm == pytest.approx(np.sqrt(3) * 1e308, rel=1e-12)


def test_nothing_has_no_statistics() -> None:
    assert statistics(np.zeros((0, 3))) == NOTHING


def test_arrays_in_any_order_of_dims() -> None:
    array = np.arange(12.0).reshape(3, 4)
    array[2, 1] = np.nan

    assert statistics(array.T).bad == (5,)
    assert statistics(array).bad == (9,)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("size", [1, 64, 2047, 2048, 2049, 70_000])
def test_the_compiled_kernel_finds_what_its_plain_twin_finds(kind: type, size: int) -> None:
    array = np.random.default_rng(size).normal(size=size).astype(kind)
    array[::7] = 0
    array[-1:] = -0.0

    found = module._compiled(array, size)
    plain = module._joined([module._of(array[i : i + 512]) for i in range(0, size, 512)])

    assert found is not None
    assert found[:7] == plain[:7]
    np.testing.assert_allclose(found[7:10], plain[7:10], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [0, 2048, 4999])
def test_the_compiled_kernel_leaves_what_is_not_finite_to_its_twin(bad: float, place: int) -> None:
    array = np.ones(5000, np.float32)
    array[place] = bad

    assert module._compiled(array, array.size) is None
    assert statistics(array).bad == (place,)


def test_the_compiled_kernel_takes_strided_arrays() -> None:
    array = np.arange(20_000, dtype=np.float64).reshape(100, 200)[::2, ::3]

    found = module._compiled(array, array.size)

    assert found is not None
    assert (found.min, found.max, found.zero) == (0.0, float(array.max()), 1)
