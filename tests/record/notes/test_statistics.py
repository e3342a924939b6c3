"""Statistics of an array: the same however it is looked at, and as rarely as will do."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from sys import getrefcount
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as hnp

from gradscope.record.from_runtime.values import measured
from gradscope.record.from_runtime.values.measured import Measured
from gradscope.record.notes import statistics as module
from gradscope.record.notes.statistics import FIRST, NOTHING, Statistics, statistics
from gradscope.runtime.core.kernels.support import LARGE
from gradscope.runtime.fast.arrays.fast_statistics import BAD, FINITE, MEASURES, TOO_LARGE


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


def compiled(array: Any) -> tuple[int, Statistics]:
    """What a kernel says of an array, and the row it writes."""
    cells = np.full((3, measured.COUNTED + FIRST), 7.0)
    said = MEASURES[array.dtype.char](array, cells, 1)
    assert (cells[::2] == 7).all()
    return said, row_of(cells[1])


def row_of(row: Any) -> Statistics:
    return Statistics(*map(int, row[:5]), *row[5:10].tolist(), measured.named(row))


@given(
    st.sampled_from([np.float32, np.float64]).flatmap(
        lambda kind: hnp.arrays(kind, st.integers(1, 60), elements=numbers)
    )
)
def test_the_compiled_kernel_finds_what_its_plain_twin_finds(array: Any) -> None:
    said, found = compiled(array)

    assert said == (FINITE if np.isfinite(array).all() else BAD)
    assert_same(found, plainly(array))


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("size", [1, 64, 2047, 2048, 2049, 70_000])
@pytest.mark.parametrize("sign", [None, 1, -1])
def test_the_compiled_kernel_measures_arrays_of_every_size(
    kind: type, size: int, sign: int | None
) -> None:
    array = np.random.default_rng(size).normal(size=size).astype(kind)
    if sign is None:
        array[::7] = 0
        array[-1:] = -0.0
    else:
        array = np.abs(array) * kind(sign)

    said, found = compiled(array)

    assert said == FINITE
    plain = statistics(array)
    assert found[:7] == plain[:7]
    np.testing.assert_allclose(found[7:10], plain[7:10], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [0, 2048, 4999])
def test_the_compiled_kernel_finds_what_is_not_finite(bad: float, place: int) -> None:
    array = np.linspace(-1, 2, 5000, dtype=np.float32)
    array[place] = bad

    said, found = compiled(array)

    assert said == BAD
    assert_same(found, plainly(array))


def test_the_compiled_kernel_leaves_sums_that_overflow_to_its_twin() -> None:
    array = np.array([1e308, 1e308, -1e308])

    assert compiled(array)[0] == TOO_LARGE
    assert look(array).rms == pytest.approx(1e308)


# -- rows ------------------------------------------------------------------------------------------


def look(array: Any) -> Statistics:
    """The row of one array, looked at when kernels are there."""
    made = Measured()
    made._kernels = MEASURES
    number, bad = made.row(array)
    found = row_of(made.read(np.array([number]))[0])
    assert bad == bool(found.bad)
    return found


@pytest.mark.parametrize(
    "view",
    [
        lambda array: array[::2, ::3],
        lambda array: array.T,
        lambda array: array.reshape(100, 10, 20).transpose(1, 0, 2),
        lambda array: np.broadcast_to(array[:1], (3, 200)),
        lambda array: array[:0],
        lambda array: array[0, 0],
    ],
)
@pytest.mark.parametrize("bad", [(), ((3, 3),), ((0, 0), (7, 1), (4, 99))])
def test_arrays_laid_out_in_any_way(view: Any, bad: Any) -> None:
    array = np.arange(-500, 19_500, dtype=np.float32).reshape(100, 200)
    for place in bad:
        array[place] = np.nan
    seen = np.asarray(view(array))

    assert_same(look(seen), plainly(seen) if seen.size else NOTHING)


def test_rows_are_read_in_the_order_asked_for_and_given_up_when_all_were() -> None:
    made = Measured()
    numbers = [made.row(np.array(float(i)))[0] for i in range(3 * measured.ROWS // 2)]
    assert len(made._all) == 2

    last = made.read(np.array(numbers[::-1]))

    assert last[:, 5].tolist() == list(map(float, range(len(numbers))))[::-1]
    assert len(made._all) == 1


def test_threads_take_rows_of_their_own() -> None:
    made = Measured()
    with ThreadPoolExecutor(4) as pool:
        arrays = (np.array(float(i)) for i in range(5 * measured.ROWS))
        numbers = [number for number, _ in pool.map(made.row, arrays)]

    assert made.read(np.array(numbers))[:, 5].tolist() == list(map(float, range(len(numbers))))


def times_looked(made: Measured) -> list[Any]:
    """The arrays that are looked at from now on, rather than known."""
    looked = []
    fill = made._fill
    made._fill = lambda array, *rest: (looked.append(array), fill(array, *rest))[1]  # type: ignore[method-assign, func-returns-value]
    return looked


def test_a_gradient_is_measured_once_however_it_is_laid_out() -> None:
    made, grad = Measured(), np.arange(6.0).reshape(2, 3)
    looked = times_looked(made)
    seen = [grad, grad, grad.reshape(3, 2), grad.T, grad.reshape(1, 3, 2).transpose(2, 0, 1)]

    rows = [made.of_gradient(each)[0] for each in seen]

    assert len(looked) == 1
    assert len(set(rows)) == len(seen)
    for row in made.read(np.array(rows)):
        assert_same(row_of(row), plainly(grad))


@pytest.mark.parametrize(
    "other",
    [
        lambda grad: grad[:1],
        lambda grad: np.broadcast_to(grad[:1], (2, 3)),
        lambda grad: grad.view(np.int64),
        lambda grad: np.lib.stride_tricks.as_strided(grad, (3, 2), (8, 8)),
        np.copy,
    ],
)
def test_what_is_not_the_same_elements_is_measured(other: Any) -> None:
    made, grad = Measured(), np.arange(6.0).reshape(2, 3)
    made.of_gradient(grad)
    looked = times_looked(made)

    made.of_gradient(other(grad))

    assert len(looked) == 1


def test_a_gradient_is_measured_again_when_it_may_have_changed() -> None:
    made, grad = Measured(), np.ones(4)
    looked = times_looked(made)

    made.of_gradient(grad)
    made.of_made(grad)
    made.lent(grad.reshape(2, 2))
    made.of_gradient(grad)
    made.forget()
    made.of_gradient(grad)
    made.of_gradient(grad)

    assert len(looked) == 4


def test_an_array_where_another_was_is_measured() -> None:
    made = Measured()
    looked = times_looked(made)
    for i in range(50):
        made.of_gradient(np.full(3, float(i)))
        looked[:] = [None] * len(looked)

    assert len(looked) == 50


def test_a_gradient_with_a_nan_is_measured_each_time() -> None:
    """Where its bad elements are depends on its layout."""
    made, grad = Measured(), np.array([[1.0, np.nan], [2.0, 3.0]])

    rows = made.read(np.array([made.of_gradient(each)[0] for each in (grad, grad.T)]))

    assert [measured.named(row) for row in rows] == [(1,), (2,)]


def test_looking_does_not_hold_an_array() -> None:
    made, grad = Measured(), np.ones(4)
    before = getrefcount(grad)
    made.of_gradient(grad)

    assert getrefcount(grad) == before


def test_kernels_come_with_a_large_array_or_after_many_looks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    few, large = Measured(), Measured()
    monkeypatch.setattr(measured, "WORTH", 3)
    monkeypatch.setattr(measured, "LONG", 3)

    for _ in range(2):
        few.row(np.ones(2))
    assert not few._kernels
    few.row(np.ones(2))
    large.row(np.ones(LARGE))

    assert few._kernels is MEASURES
    assert large._kernels is MEASURES
