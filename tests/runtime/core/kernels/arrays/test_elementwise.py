"""Activations, softmax and scans on bare arrays, against PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as npst

from gradscope.runtime.core.kernels.arrays import elementwise as plain
from tests.runtime.core.kernels.distance import samples, ulps

TOLERANCE = {np.float32: 3e-6, np.float64: 1e-14}
FLOATS = list(TOLERANCE)

ACTIVATIONS: dict[str, tuple[Callable[[Any], Any], str, dict[str, Any]]] = {
    "sigmoid": (plain.sigmoid, "sigmoid", {}),
    "silu": (plain.silu, "silu", {}),
    "softplus": (plain.softplus, "softplus", {}),
    "sharp softplus": (
        lambda x: plain.softplus(x, 3.0, 10.0),
        "softplus",
        {"beta": 3.0, "threshold": 10.0},
    ),
    "gelu": (plain.gelu, "gelu", {}),
    "gelu by tanh": (lambda x: plain.gelu(x, "tanh"), "gelu", {"approximate": "tanh"}),
}


def close(ours: Any, theirs: Any, dtype: Any) -> None:
    """Relative to the number, or to one where the formula subtracts from one."""
    assert ours.dtype == theirs.dtype
    np.testing.assert_allclose(ours, theirs, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


@pytest.mark.torch
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_an_activation_has_pytorchs_values(name: str, dtype: Any) -> None:
    import torch

    function, theirs, options = ACTIVATIONS[name]
    x = samples(dtype)
    if theirs == "gelu":
        x = x[np.isfinite(x)]  # PyTorch's float32 kernel answers NaN to infinity, its float64 not
    expected = getattr(torch.nn.functional, theirs)(torch.tensor(x), **options).numpy()
    close(function(x), expected, dtype)


@pytest.mark.torch
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_half_precision_is_computed_in_float32_and_rounded_once(name: str) -> None:
    import torch

    function, theirs, options = ACTIVATIONS[name]
    x = samples(np.float16, count=300)
    x = x[np.isfinite(x)]
    expected = getattr(torch.nn.functional, theirs)(torch.tensor(x), **options).numpy()
    np.testing.assert_allclose(function(x), expected, rtol=2e-3, atol=2e-4)
    narrow = function(x.astype(ml_dtypes.bfloat16))
    assert narrow.dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(
        narrow,
        function(narrow_input := x.astype(ml_dtypes.bfloat16).astype(np.float32)).astype(
            ml_dtypes.bfloat16
        ),
        err_msg=str(narrow_input.dtype),
    )


@pytest.mark.torch
@pytest.mark.parametrize("approximate", ["none", "tanh"])
@pytest.mark.parametrize("dtype", FLOATS)
def test_the_gradient_of_gelu_is_pytorchs(dtype: Any, approximate: str) -> None:
    import torch

    x = samples(dtype)
    x = x[np.isfinite(x)]
    grad = np.linspace(-1, 1, x.size, dtype=dtype)
    theirs = torch.ops.aten.gelu_backward(
        torch.tensor(grad), torch.tensor(x), approximate=approximate
    )
    close(plain.gelu_backward(grad, x, approximate), theirs.numpy(), dtype)


shapes = npst.array_shapes(min_dims=1, max_dims=3, max_side=5)
matrices = npst.arrays(np.float32, shapes, elements=st.floats(-50, 50, width=32))


@pytest.mark.torch
@given(matrices, st.integers(0, 2))
def test_softmax_has_pytorchs_values_over_every_dim(x: Any, dim: int) -> None:
    import torch

    dim %= x.ndim
    theirs = torch.tensor(x)
    assert ulps(plain.softmax(x, dim), theirs.softmax(dim).numpy()) <= 16
    close(plain.log_softmax(x, dim), theirs.log_softmax(dim).numpy(), np.float32)
    close(plain.logsumexp(x, dim), theirs.logsumexp(dim).numpy(), np.float32)
    close(
        plain.logsumexp(x, dim, keepdim=True),
        theirs.logsumexp(dim, keepdim=True).numpy(),
        np.float32,
    )


@pytest.mark.torch
@pytest.mark.parametrize("row", [[-np.inf, -np.inf], [np.inf, 1.0], [np.nan, 1.0], [-np.inf, 3.0]])
def test_softmax_of_infinite_rows_is_pytorchs(row: list[float]) -> None:
    import torch

    x, theirs = np.array([row]), torch.tensor([row], dtype=torch.float64)
    np.testing.assert_array_equal(plain.softmax(x, 1), theirs.softmax(1).numpy())
    np.testing.assert_array_equal(plain.log_softmax(x, 1), theirs.log_softmax(1).numpy())
    np.testing.assert_array_equal(plain.logsumexp(x, 1), theirs.logsumexp(1).numpy())


@pytest.mark.torch
def test_softmax_takes_empty_and_dimensionless_arrays() -> None:
    import torch

    for shape, dim in (((), 0), ((0, 3), 1), ((3, 0), 1), ((3, 0), 0)):
        x, theirs = np.ones(shape), torch.ones(shape, dtype=torch.float64)
        np.testing.assert_array_equal(plain.softmax(x, dim), theirs.softmax(dim).numpy())
        np.testing.assert_array_equal(plain.log_softmax(x, dim), theirs.log_softmax(dim).numpy())
        np.testing.assert_array_equal(plain.logsumexp(x, dim), theirs.logsumexp(dim).numpy())


@pytest.mark.torch
@pytest.mark.parametrize("dtype", FLOATS)
def test_xlogy_has_pytorchs_values(dtype: Any) -> None:
    import torch

    x, y = samples(dtype), samples(dtype, seed=1)[::-1].copy()
    x[::5] = 0
    expected = torch.xlogy(torch.tensor(x), torch.tensor(y)).numpy()
    close(plain.xlogy(x, y), expected, dtype)


@pytest.mark.torch
@pytest.mark.parametrize("options", [{}, {"nan": 3.0, "posinf": 1.0}, {"neginf": -7.0}])
def test_nan_to_num_replaces_what_pytorchs_does(options: dict[str, float]) -> None:
    import torch

    for dtype in (np.float16, np.float32, np.float64, np.complex64, np.int32):
        x = np.array([1, 2, 3, 4, 5]).astype(dtype)
        if dtype != np.int32:
            x[:3] = np.nan, np.inf, -np.inf
        theirs = torch.nan_to_num(torch.tensor(x), **options).numpy()
        np.testing.assert_array_equal(plain.nan_to_num(x, **options), theirs)
    special = np.array([np.nan, np.inf, 1.5], np.float32)
    theirs = torch.tensor(special).bfloat16().nan_to_num().float().numpy()
    ours = plain.nan_to_num(special.astype(ml_dtypes.bfloat16))
    np.testing.assert_array_equal(ours.astype(np.float32), theirs)


@pytest.mark.torch
@pytest.mark.parametrize("dtype", [np.bool_, np.uint8, np.int32, np.int64, np.float16, *FLOATS])
@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
def test_a_scan_has_pytorchs_dtype_and_bits(name: str, dtype: Any) -> None:
    import torch

    rng = np.random.default_rng(0)
    x = rng.normal(1, 0.2, (4, 50, 3)).astype(dtype)
    for dim in (0, 1, -1):
        ours = getattr(plain, name)(x, dim)
        theirs = getattr(torch, name)(torch.tensor(x), dim).numpy()
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs)
    wider = getattr(plain, name)(x, 1, np.dtype(np.float64))
    np.testing.assert_array_equal(
        wider, getattr(torch, name)(torch.tensor(x), 1, dtype=torch.float64).numpy()
    )
    np.testing.assert_array_equal(getattr(plain, name)(x[0, 0, 0].reshape(()), 0), x[0, 0, 0])
