"""The families of erf and of the gamma function, against PyTorch and their own identities."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gradscope.runtime.core.kernels.special import special
from gradscope.runtime.core.kernels.support import LARGE, fast
from tests.runtime.core.kernels.distance import samples, ulps

FLOATS = [np.float32, np.float64]


@pytest.mark.torch
@pytest.mark.parametrize("dtype", FLOATS)
def test_erf_is_within_one_ulp_of_pytorchs(dtype: Any) -> None:
    import torch

    x = samples(dtype)
    assert ulps(special.erf(x), torch.erf(torch.tensor(x)).numpy()) <= 1


@pytest.mark.torch
@pytest.mark.parametrize("dtype", FLOATS)
def test_erfinv_is_within_one_ulp_of_pytorchs_float64(dtype: Any) -> None:
    import torch

    x = np.concatenate([np.tanh(samples(dtype)), dtype([0.999999, -0.9999999, 1.5, -2.0])])
    exact = torch.erfinv(torch.tensor(x.astype(np.float64))).numpy()
    assert ulps(special.erfinv(x), exact.astype(dtype)) <= 1


@pytest.mark.torch
def test_erfc_is_within_three_ulps_of_pytorchs() -> None:
    import torch

    x = samples(np.float64)
    assert ulps(special.erfc(x), torch.erfc(torch.tensor(x)).numpy()) <= 3


@pytest.mark.torch
def test_gamma_functions_agree_with_pytorchs_for_positive_numbers() -> None:
    import torch

    x = np.abs(samples(np.float64))
    far_from_roots = x[~((x > 0.9) & (x < 2.1))]
    theirs = torch.tensor(far_from_roots)
    assert ulps(special.lgamma(far_from_roots), torch.lgamma(theirs).numpy()) <= 4
    assert ulps(special.digamma(far_from_roots), torch.digamma(theirs).numpy()) <= 8
    finite = torch.tensor(np.where(np.isinf(far_from_roots), 1.0, far_from_roots))
    assert ulps(special.polygamma(finite.numpy(), 2), torch.polygamma(2, finite).numpy()) <= 8


@pytest.mark.torch
@pytest.mark.parametrize(
    ("ours", "theirs"),
    [(special.lgamma, "lgamma"), (special.digamma, "digamma")],
)
def test_gamma_functions_agree_with_pytorchs_on_the_negative_side(
    ours: Callable[[Any], Any], theirs: str
) -> None:
    import torch

    x = -np.abs(samples(np.float64))
    x = x[np.isfinite(x)]
    x = x[(np.abs(x - np.round(x)) > 1e-3) | (x == np.round(x))]
    np.testing.assert_allclose(
        ours(x), getattr(torch, theirs)(torch.tensor(x)).numpy(), rtol=1e-12, atol=1e-12
    )


def test_lgamma_is_the_logarithm_of_factorials() -> None:
    n = np.arange(1.0, 60.0)
    exact = np.array([math.log(math.factorial(int(k) - 1)) for k in n])
    assert ulps(special.lgamma(n), exact) <= 2


def test_digamma_grows_by_the_reciprocal() -> None:
    x = np.linspace(0.1, 40.0, 400)
    np.testing.assert_allclose(special.digamma(x + 1), special.digamma(x) + 1 / x, rtol=1e-13)


def test_polygamma_of_order_zero_is_digamma_and_of_one_is_reflected() -> None:
    x = np.array([0.3, 1.7, 12.0])
    np.testing.assert_array_equal(special.polygamma(x, 0), special.digamma(x))
    total = special.polygamma(1 - x, 1) + special.polygamma(x, 1)
    np.testing.assert_allclose(total[:2], (math.pi / np.sin(math.pi * x[:2])) ** 2, rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize(
    "function", [special.erf, special.erfc, special.erfinv, special.lgamma, special.digamma]
)
def test_special_functions_keep_dtype_and_shape(function: Callable[[Any], Any], dtype: Any) -> None:
    for shape in ((), (0,), (2, 3)):
        result = function(np.full(shape, 0.25, dtype))
        assert (type(result), result.dtype, result.shape) == (np.ndarray, np.dtype(dtype), shape)


@pytest.mark.parametrize("dtype", FLOATS)
def test_large_arrays_get_the_same_values_from_numba(dtype: Any) -> None:
    x = np.resize(samples(dtype), (2, LARGE // 2))
    for function in (special.erf, special.erfc):
        small = np.concatenate([function(part) for part in np.array_split(x.reshape(-1), 64)])
        np.testing.assert_array_equal(function(x), small.reshape(x.shape))
    assert fast().__name__ == "gradscope.runtime.fast.arrays.fast_elementwise"
