"""`testing.make_tensor` makes the same tensors as PyTorch's, and refuses the same."""

from __future__ import annotations

import importlib
import warnings
from typing import Any

import pytest

pytestmark = pytest.mark.torch

DTYPES = ["float32", "float64", "float16", "bfloat16", "complex64", "complex128"]
DTYPES += ["int64", "int32", "uint8", "bool"]
HOW: list[dict[str, Any]] = [
    {},
    {"low": -1, "high": 1},
    {"low": 0.5},
    {"low": 2, "high": 1},
    {"low": 1, "high": 1},
    {"low": float("nan")},
    {"low": 1e40, "high": 1e41},
    {"noncontiguous": True},
    {"requires_grad": True},
    {"exclude_zero": True},
    {"noncontiguous": True, "memory_format": "contiguous_format"},
]


def made(torch: Any, dtype: str, how: dict[str, Any]) -> Any:
    """What comes of a call: values, strides and marks, or the error; and the warnings."""
    torch.manual_seed(0)
    options = {
        name: getattr(torch, value) if name == "memory_format" else value
        for name, value in how.items()
    }
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            tensor = torch.testing.make_tensor(
                (2, 3), dtype=getattr(torch, dtype), device="cpu", **options
            )
        except ValueError as error:
            return str(error), []
    values = tensor.detach().tolist(), tensor.stride(), str(tensor.dtype), tensor.requires_grad
    return values, [str(warning.message) for warning in told]


@pytest.mark.parametrize("how", HOW, ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
def test_made_tensors_are_pytorchs(dtype: str, how: dict[str, Any]) -> None:
    ours, theirs = (importlib.import_module(n) for n in ("gradscope.runtime", "torch"))

    assert repr(made(ours, dtype, how)) == repr(made(theirs, dtype, how))
