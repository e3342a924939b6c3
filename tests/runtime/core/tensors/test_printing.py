"""A tensor prints as PyTorch's does, to the character."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as npst

from gradscope.runtime.core.dtypes import dtypes
from gradscope.runtime.core.tensors import printing
from gradscope.runtime.core.tensors.printing import (
    format_tensor,
)
from tests.shared.searching import searching

INF, NAN = float("inf"), float("nan")


def printed(array: Any, **about: Any) -> str:
    array = np.asarray(array)
    return format_tensor(array, dtype=dtypes.from_numpy(array.dtype), **about)


def theirs(array: Any) -> Any:
    import torch

    array = np.asarray(array)
    if array.dtype == ml_dtypes.bfloat16:
        return torch.tensor(array.astype(np.float32)).bfloat16()
    return torch.tensor(array)


SPECIAL: list[Any] = [
    3,
    1.5,
    -0.0,
    NAN,
    True,
    1 + 2j,
    1 - 2j,
    complex(NAN, -INF),
    [True, False],
    [1.0, INF],
    [1.5, -INF, NAN],
    [INF, NAN],
    [0.0, 0.0],
    [0.0, -0.0, 1e-5],
    [1e-5, 1.0],
    [1000.0, 1.0],
    [1001.0, 1.0],
    [1e8, 2e8],
    [1e9, 2e9],
    [1e-300, 1e300],
    [0.0001, 0.01],
    [-1, 20, -300],
    [1 + 2j, -3.5 - 4e-6j],
    [[1 + 2j, 3j], [0, -1]],
    np.zeros((0,)),
    np.zeros((0, 3)),
    np.zeros((2, 0, 3)),
    np.zeros((0,), np.int64),
    np.zeros((0, 2), np.float16),
    np.zeros((0,), np.complex64),
    np.zeros((2, 1, 3)),
    np.arange(24.0).reshape(2, 3, 4),
    np.arange(100.0),
    np.arange(100.0) / 7,
    np.arange(50) * 1j,
    np.arange(1000),
    np.arange(1001),
    np.arange(1001.0) / 3,
    np.arange(10000.0).reshape(100, 100),
    np.arange(4096.0).reshape(4, 4, 4, 64),
    np.arange(3000).reshape(2, 1500),
    np.arange(3000).reshape(1500, 2),
    np.arange(3000) * (1 - 1j),
    np.array([2**64 - 1, 0], np.uint64),
    np.array([65504, 1e-7], np.float16),
    np.array([3.14159, 300], ml_dtypes.bfloat16),
]


@pytest.mark.torch
@pytest.mark.parametrize("values", SPECIAL, ids=lambda v: str(v)[:30])
@pytest.mark.parametrize("dtype", [None, np.float32])
def test_special_cases_print_as_pytorchs(values: Any, dtype: Any) -> None:
    array = np.asarray(values)
    if dtype is not None and array.dtype == np.float64:
        with np.errstate(over="ignore", under="ignore"):
            array = array.astype(dtype)
    assert printed(array) == repr(theirs(array))


DTYPES = [
    np.dtype(kind)
    for kind in (
        *(np.bool_, np.uint8, np.int8, np.int16, np.int32, np.int64),
        *(np.float16, np.float32, np.float64, np.complex64, np.complex128),
    )
]
SHAPES = npst.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=7)


@pytest.mark.torch
@searching(300)
@given(st.data(), st.sampled_from(DTYPES), SHAPES)
def test_any_array_prints_as_pytorchs(data: st.DataObject, dtype: Any, shape: Any) -> None:
    array = data.draw(npst.arrays(dtype, shape))
    assert printed(array) == repr(theirs(array))


@pytest.mark.torch
@searching(300)
@given(
    st.integers(0, 99),
    st.tuples(*[st.integers(1, 12)] * 3),
    st.floats(-9, 9),
    st.floats(0, 4),
    st.sampled_from([np.float16, np.float32, np.float64]),
    st.integers(0, 7),
    st.fixed_dictionaries(
        {
            "precision": st.integers(0, 8),
            "threshold": st.sampled_from([0, 10, 100, 1000]),
            "edgeitems": st.integers(0, 4),
            "linewidth": st.integers(10, 150),
            "sci_mode": st.sampled_from([None, True, False]),
        }
    ),
)
def test_magnitudes_and_options_decide_the_notation_as_in_pytorch(
    seed: int,
    shape: Any,
    magnitude: float,
    spread: float,
    dtype: Any,
    decimals: int,
    options: dict[str, Any],
) -> None:
    import torch

    rng = np.random.default_rng(seed)
    with np.errstate(over="ignore"):
        values = rng.normal(size=shape) * 10 ** (magnitude + spread * rng.normal(size=shape))
        array = np.round(values, decimals).astype(dtype)
    torch.set_printoptions(**options)
    try:
        printing.set_printoptions(**options)
        assert printed(array) == repr(theirs(array))
    finally:
        printing.set_printoptions(profile="default")
        torch.set_printoptions(profile="default")


@pytest.mark.torch
@pytest.mark.parametrize("name", ["float32", "float64", "float16", "bfloat16"])
def test_the_dtype_is_named_where_the_default_does_not_imply_it(name: str) -> None:
    import torch

    kinds = [k for k in dtypes.ALL if k is not dtypes.complex32]
    torch.set_default_dtype(getattr(torch, name))
    try:
        dtypes.set_default_dtype(dtypes.named(name))
        for kind in kinds:
            for shape in ((), (2,), (0,), (0, 2)):
                array = np.ones(shape, kind.numpy)
                expected = torch.ones(shape, dtype=getattr(torch, kind.name))
                assert printed(array) == repr(expected)
    finally:
        dtypes.set_default_dtype(dtypes.float32)
        torch.set_default_dtype(torch.float32)


@pytest.mark.torch
def test_gradients_are_named_and_wrap_where_the_line_is_full() -> None:
    import torch

    for size in range(1, 15):
        array = np.arange(size, dtype=np.float32)
        leaf = torch.tensor(array, requires_grad=True)
        assert printed(array, requires_grad=True) == repr(leaf)
        assert printed(array, requires_grad=True, grad_fn_name="MulBackward0") == repr(leaf * 1)
        wide = leaf.double() * 1
        assert printed(array.astype(float), grad_fn_name="MulBackward0") == repr(wide)


@pytest.mark.torch
def test_a_tensor_on_the_meta_device_shows_its_shape() -> None:
    import torch

    for shape in ((), (2, 3), (2, 0)):
        for name in ("float32", "int32"):
            kind = dtypes.named(name)
            expected = torch.empty(shape, dtype=getattr(torch, name), device="meta")
            ours = format_tensor(np.empty(shape), dtype=kind, device="meta")
            assert ours == repr(expected)


def test_another_device_and_names_are_told() -> None:
    assert printed(np.float32([1, 2]), device="sim:0") == "tensor([1., 2.], device='sim:0')"


@pytest.mark.torch
def test_options_are_kept_and_reset_as_by_pytorch() -> None:
    import torch

    steps: list[dict[str, Any]] = [
        {"profile": "short"},
        {"sci_mode": True},
        {"precision": 3, "linewidth": 120},
        {"profile": "full", "edgeitems": 5},
        {"threshold": 7, "sci_mode": False},
        {"profile": "default"},
    ]
    for step in steps:
        printing.set_printoptions(**step)
        torch.set_printoptions(**step)
        assert printing._current.options._asdict() == torch._tensor_str.get_printoptions()
