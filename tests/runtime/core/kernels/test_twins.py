"""Compiled kernels of norms, softmax, attention and activations against their plain twins."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gradscope.runtime.core.kernels import support
from gradscope.runtime.core.kernels.arrays import elementwise as plain
from gradscope.runtime.core.kernels.layers import attention, norms, row_softmax as rows
from gradscope.runtime.core.kernels.support import Family
from gradscope.runtime.core.ops.layers import softmax as softmaxes

TOLERANCE = {np.float32: 2e-5, np.float64: 1e-11}


@pytest.fixture
def both(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Any, Any]]:
    """What a function returns by compiled kernels, then by plain ones."""

    def run(function: Callable[..., Any], *arguments: Any) -> tuple[Any, Any]:
        asked: list[int] = []
        for name in ("wins", "wins_by_now"):
            monkeypatch.setattr(Family, name, lambda _, size: asked.append(size) or True)
        fast = function(*arguments)
        assert asked
        for name in ("wins", "wins_by_now"):
            monkeypatch.setattr(Family, name, lambda *_: False)
        return fast, function(*arguments)

    return run


def numbers(shape: tuple[int, ...], dtype: Any, seed: int = 0) -> Any:
    return (np.random.default_rng(seed).normal(size=shape) * 3 + 1).astype(dtype)


def compare(found: Any, expected: Any, dtype: Any) -> None:
    if not isinstance(expected, tuple):
        found, expected = (found,), (expected,)
    for mine, known in zip(found, expected, strict=True):
        assert (mine is None) is (known is None)
        if known is not None:
            assert (mine.shape, mine.dtype) == (known.shape, known.dtype)
            scale = max(1.0, float(np.abs(known).max(initial=0)))
            tolerance = TOLERANCE[dtype]
            np.testing.assert_allclose(mine, known, rtol=10 * tolerance, atol=tolerance * scale)


NEEDS = [(True, True, True), (True, False, False)]
DTYPES = list(TOLERANCE)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize(("shape", "count"), [((7, 33), 1), ((2, 3, 5, 300), 2), ((3, 2500), 1)])
def test_layers(both: Any, shape: Any, count: int, affine: bool, dtype: Any) -> None:
    x, grad = numbers(shape, dtype), numbers(shape, dtype, 1)
    vectors = [numbers(shape[-count:], dtype, i) if affine else None for i in (2, 3)]

    forward = both(norms.layer_norm, x, count, *vectors, 1e-5)
    compare(*forward, dtype)
    for needs in NEEDS:
        words = (grad, x, *forward[1][1:], vectors[0], count, needs)
        compare(*both(norms.layer_norm_backward, *words), dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("shape", [(3, 4, 5), (2, 6, 3, 7), (2, 3, 2100)])
def test_batches(both: Any, shape: Any, affine: bool, dtype: Any) -> None:
    x, grad = numbers(shape, dtype).swapaxes(0, 0), numbers(shape, dtype, 1)
    vectors = [numbers(shape[1:2], dtype, i) if affine else None for i in (2, 3)]

    moments = both(norms.batch_moments, x, 1e-5)
    compare(*moments, dtype)
    mean, rstd, _ = moments[1]
    compare(*both(norms.batch_norm, x, mean, rstd, *vectors), dtype)
    for needs in NEEDS:
        for training in (True, False):
            words = (grad, x, mean, rstd, vectors[0], needs, training)
            compare(*both(norms.batch_norm_backward, *words), dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("groups", [1, 2, 6])
def test_groups(both: Any, groups: int, affine: bool, dtype: Any) -> None:
    x, grad = numbers((2, 6, 11), dtype), numbers((2, 6, 11), dtype, 1)
    vectors = [numbers((6,), dtype, i) if affine else None for i in (2, 3)]

    forward = both(norms.group_norm, x, groups, *vectors, 1e-5)
    compare(*forward, dtype)
    for needs in NEEDS:
        words = (grad, x, *forward[1][1:], vectors[0], groups, needs)
        compare(*both(norms.group_norm_backward, *words), dtype)


@pytest.mark.parametrize("width", [2, 3, 64, 1000, 5000])
def test_rows(both: Any, width: int) -> None:
    x, grad = (numbers((600 if width < 9 else 70, width), np.float32, i) for i in range(2))
    x[0] *= 30

    for forward, backward in (
        (softmaxes._softmax, softmaxes._softmax_backward),
        (softmaxes._log_softmax, softmaxes._log_softmax_backward),
    ):
        made = both(forward, x, -1)
        compare(*made, np.float32)
        compare(*both(backward, grad, made[1], 1), np.float32)


def test_rows_with_what_is_not_finite(both: Any) -> None:
    x = numbers((70, 40), np.float32)
    x[0, 3], x[1, 4], x[2], x[3, 5] = np.nan, -np.inf, -np.inf, np.inf

    with np.errstate(all="ignore"):
        for function in (softmaxes._softmax, softmaxes._log_softmax, softmaxes._safe):
            np.testing.assert_array_equal(*(np.isnan(made) for made in both(function, x, 1)))
            np.testing.assert_allclose(*both(function, x, 1), rtol=1e-5)


def test_only_rows_that_lie_together_are_compiled() -> None:
    x = np.zeros((300, 300), np.float32)

    assert rows.wins(x, 1)
    assert not rows.wins(x, 0)
    assert not rows.wins(x.T, 1)
    assert not rows.wins(x.astype(np.float64), 1)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize(("length", "keys"), [(5, 5), (70, 40), (33, 90)])
def test_attention(both: Any, length: int, keys: int, masked: bool, causal: bool) -> None:
    query, grad = (numbers((2, 4, length, 8), np.float32, i) for i in (0, 3))
    key, value = (numbers((2, 2, keys, 8), np.float32, i) for i in (1, 2))
    mask = numbers((length, keys), np.float32, 4) if masked else None
    if mask is not None:
        mask[3] = -np.inf
    how = attention.How(0.1, causal, mask)

    forward = both(attention.attention, query, key, value, how)
    compare(*forward, np.float32)
    words = (grad, query, key, value, *forward[1], how)
    compare(*both(attention.attention_backward, *words), np.float32)


def test_activations(both: Any) -> None:
    x = np.concatenate([np.linspace(-12, 12, 1001), [-1e30, 1e30]]).astype(np.float32)
    grad = numbers(x.shape, np.float32)

    for approximate in ("none", "tanh"):
        compare(*both(plain.gelu, x, approximate), np.float32)
        words = (grad[:-2], x[:-2], approximate)
        compare(*both(plain.gelu_backward, *words), np.float32)
    compare(*both(plain.silu, x), np.float32)
    wide = x[:-2].astype(np.float64)
    share = 1 / (1 + np.exp(-wide))
    slope = grad[:-2] * share * (1 + wide * (1 - share))
    found, _ = both(plain.silu_backward, grad[:-2], x[:-2])
    compare(found, slope.astype(np.float32), np.float32)
    assert np.isnan(both(plain.gelu, np.array([np.nan], np.float32))[0])


def test_the_slope_of_gelu_is_as_right_as_float32_shows() -> None:
    x = np.linspace(-12, 12, 20_001).astype(np.float32)
    found = plain.FAST.kernels.gelu_backward(np.ones_like(x), x)
    known = [
        (1 + math.erf(v / math.sqrt(2))) / 2 + v * math.exp(-v * v / 2) / math.sqrt(2 * math.pi)
        for v in x.astype(np.float64)
    ]
    far = np.array([np.nan, np.inf, -np.inf, 40, -40, 3e38], np.float32)

    np.testing.assert_allclose(found, known, rtol=0, atol=4e-7)
    np.testing.assert_array_equal(  # as PyTorch has it
        plain.FAST.kernels.gelu_backward(np.ones_like(far), far), [np.nan, np.nan, np.nan, 1, 0, 1]
    )


@pytest.mark.parametrize("dtype", DTYPES)
def test_relu(both: Any, dtype: Any) -> None:
    x = numbers((3, 41), dtype)
    x[0, :5] = np.nan, np.inf, -np.inf, 0.0, -0.0

    for given in (x, x.T):
        found, known = both(plain.relu, given)
        np.testing.assert_array_equal(found, known)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("threshold", [0, -1.5])
def test_thresholds(both: Any, threshold: float, dtype: Any) -> None:
    """What is NaN is not below, and what is at the threshold is: both to the bit."""
    x, grad = numbers((3, 41), dtype), numbers((3, 41), dtype, 1)
    x[0, :6] = np.nan, np.inf, -np.inf, threshold, 0.0, -0.0
    grad[1, :3] = np.nan, np.inf, -np.inf

    found, known = both(plain.threshold_backward, grad, x, threshold)

    assert found.tobytes() == known.tobytes()
    np.testing.assert_array_equal(found, np.where(x <= threshold, 0, grad))


def test_kernels_with_the_same_bits_begin_when_many_smaller_arrays_have_come(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    family = Family("arrays.fast_relu", few=1000)
    monkeypatch.setattr(support, "MANY", 5000)

    assert not family.wins_by_now(999)
    assert [family.wins_by_now(1000) for _ in range(5)] == [False] * 4 + [True]
    assert not family.wins(1000)  # who rounds otherwise than NumPy does not change in between
    assert family.kernels.relu(np.ones(3)).sum() == 3
    assert family.wins(1000)
    monkeypatch.delitem(sys.modules, "numba")
    assert not Family("arrays.fast_relu", few=1000).wins_by_now(10_000)
