"""Numbers that are to be elements: cut off, wrapped or refused as PyTorch does."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tests.runtime.answers.kept import as_pytorch_answered

pytestmark = pytest.mark.filterwarnings("ignore")

DTYPES = (
    "uint8", "int8", "int32", "int64", "float16", "bfloat16", "float32", "float64", "complex64",
    "bool",
)  # fmt: skip
NUMBERS = (
    -4, -255, -256, 300, 2.5, -0.5, 1e300, math.inf, math.nan, 1j, 2 + 0j, 1e5, 2**40, -(2**40),
    True,
)  # fmt: skip
WAYS = {
    "constant_pad_nd": lambda t, zeros, number: t.constant_pad_nd(zeros, (1, 0), number),
    "fill_": lambda t, zeros, number: zeros.fill_(number),
    "full": lambda t, zeros, number: t.full((1,), number, dtype=zeros.dtype),
    "fill_, three": lambda t, zeros, number: t.cat([zeros] * 3).fill_(number),
    "full_like": lambda t, zeros, number: t.full_like(zeros, number),
    "index_fill": lambda t, zeros, number: zeros.index_fill(0, t.tensor([0]), number),
    "masked_fill": lambda t, zeros, number: zeros.masked_fill(t.tensor([True]), number),
    "masked_fill, a tensor": lambda t, zeros, number: zeros.masked_fill(
        t.tensor([True]), t.tensor(number)
    ),
    "scalar_tensor": lambda t, zeros, number: t.scalar_tensor(number, dtype=zeros.dtype),
    "scatter": lambda t, zeros, number: zeros.scatter(0, t.tensor([0]), number),
    "threshold": lambda t, zeros, number: t.threshold(zeros, 0, number),
    "__setitem__": lambda t, zeros, number: zeros.__setitem__(0, number) or zeros,
}


@as_pytorch_answered({"elements": {way: way for way in WAYS}})
def test_a_number_becomes_an_element_or_is_refused_in_pytorchs_words(torch: Any, way: str) -> Any:
    """What is made of each number in each dtype."""

    def made(dtype: str, number: Any) -> str:
        try:
            made = WAYS[way](torch, torch.zeros(1, dtype=getattr(torch, dtype)), number)
        except Exception as error:
            return f"{type(error).__name__}: {error}".partition("\n")[0]
        return repr(made.tolist())

    return {dtype: [made(dtype, number) for number in NUMBERS] for dtype in DTYPES}


# As a float32 it is 1 + 2**-11, in the middle of two numbers of float16.
MIDDLE = 1 + 2**-11 + 2**-30
TO_HALF = {
    "tensor": lambda t: t.tensor([MIDDLE, MIDDLE], dtype=t.float16),
    "full": lambda t: t.full((2,), MIDDLE, dtype=t.float16),
    "full_like": lambda t: t.full_like(t.ones(2), MIDDLE, dtype=t.float16),
    "fill_": lambda t: t.ones(2, dtype=t.float16).fill_(MIDDLE),
    "half": lambda t: t.tensor([MIDDLE], dtype=t.float64).half(),
    "copy_": lambda t: t.ones(2, dtype=t.float16).copy_(t.tensor(MIDDLE, dtype=t.float64)),
    "scalar_tensor": lambda t: t.scalar_tensor(MIDDLE, dtype=t.float16),
}


@as_pytorch_answered({"to_half": {way: way for way in TO_HALF}})
def test_doubles_become_halves_by_way_of_float32(torch: Any, way: str) -> Any:
    return [repr(each) for each in TO_HALF[way](torch).flatten().tolist()]
