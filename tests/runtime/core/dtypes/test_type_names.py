"""What errors call the type of a value, and a dtype: as PyTorch's do."""

from __future__ import annotations

from datetime import date
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest

from gradscope import runtime
from gradscope.runtime.core.dtypes.dtypes import ALL
from tests.runtime.both import raises


class Own:
    """A class of a user."""


def values(torch: Any) -> list[Any]:
    """Of types written in C and in Python, of the interpreter, others and PyTorch's."""
    plain = [
        Own(),
        Own,
        None,
        object(),
        {},
        print,
        1.5,
        date(2000, 1, 1),
        Fraction(1),
        partial(print),
    ]
    natives = [
        torch.float32,
        torch.Size([1]),
        torch.device("cpu"),
        torch.Generator(),
        torch.strided,
    ]
    classes = [torch.nn.ReLU, torch.nn.Linear(1, 1), torch.contiguous_format]
    return [
        *plain,
        np.float64(1),
        *natives,
        *classes,
        torch.finfo(torch.float64),
        torch.Tensor,
        torch.zeros(1),
    ]


def refusals(torch: Any) -> list[str]:
    x, module, norm = torch.zeros(3), torch.nn.Linear(1, 1), torch.nn.BatchNorm1d(1)
    messages = []
    for value in values(torch)[:-2]:
        for call in (
            x.new,
            lambda value: x.__setitem__(0, value),
            lambda value: torch.nn.functional.linear(value, x),
            lambda value: module.register_parameter("added", value),
            lambda value: setattr(module, "weight", value),
            lambda value: setattr(norm, "running_mean", value),
            lambda value: module.add_module(value, module),
            torch.nn.Sequential,
            lambda value: torch.optim.SGD([value]),
        ):
            try:
                call(value)
            except (LookupError, TypeError) as error:
                messages.append(str(error).split("\n")[0])
    return messages


@pytest.mark.torch
def test_errors_name_types_as_pytorch_does() -> None:
    import torch

    assert [*map(runtime.typename, values(runtime))] == [*map(torch.typename, values(torch))]
    assert refusals(runtime) == refusals(torch)


MIXTURES = {
    "memory": lambda torch, kind, other: torch.zeros(1, dtype=other).set_(
        torch.zeros(1, dtype=kind)
    ),
    "product": lambda torch, kind, other: (
        torch.zeros(1, 2, dtype=kind) @ torch.zeros(2, 1, dtype=other)
    ),
    "added product": lambda torch, kind, other: torch.addmm(
        torch.zeros(1, 1, dtype=kind), *(torch.zeros(1, 1, dtype=other) for _ in "ab")
    ),
    "attention": lambda torch, kind, other: torch.nn.functional.scaled_dot_product_attention(
        *(torch.zeros(1, 1, dtype=k) for k in (kind, other, other))
    ),
}


@pytest.mark.torch
@pytest.mark.parametrize("name", [kind.name for kind in ALL if kind.name != "complex32"])
@pytest.mark.parametrize("mixture", MIXTURES)
def test_errors_name_dtypes_as_pytorch_does(mixture: str, name: str) -> None:
    import torch

    other = "float32" if name != "float32" else "int16"

    def message(torch: Any) -> str:
        kinds = getattr(torch, name), getattr(torch, other)
        return raises(RuntimeError, lambda: MIXTURES[mixture](torch, *kinds))

    assert message(runtime) == message(torch)
