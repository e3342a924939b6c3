"""Statistics by operations of PyTorch beside those of NumPy; the CPU stands for a device."""

from __future__ import annotations

from math import inf, isnan, nan
from typing import Any

import numpy as np
import pytest

from gradscope.record.notes.statistics import Statistics, statistics
from tests.watch.values.test_measure import of_every_layout

pytestmark = pytest.mark.torch


def measured(tensors: list[Any]) -> list[Statistics]:
    import torch

    from gradscope.watch.values.devices import reductions

    numbers, about = [], []
    for tensor in tensors:
        plain, times = reductions.once(tensor.detach())
        many = 0
        for part in reductions.parts(plain) if tensor.numel() else ():
            assert part.numel() <= reductions.LARGEST
            row = torch.empty(len(reductions.NUMBERS), dtype=reductions.WORKING[part.dtype])
            reductions.put_numbers(part, row)
            numbers.append(row.double().numpy())
            many += 1
        about.append((many, times, tensor.numel()))
    found = reductions.joined(
        np.array(numbers).reshape(-1, len(reductions.NUMBERS)), *np.array(about).T
    )
    columns = (*(getattr(found, name) for name in Statistics._fields[:9]), found.norm())
    return [Statistics(*row, ()) for row in zip(*(c.tolist() for c in columns), strict=True)]


def expected(tensor: Any) -> Statistics:
    import torch

    plain = tensor.detach()
    return statistics((plain.float() if plain.dtype is torch.bfloat16 else plain).numpy())


def is_alike(one: Statistics, other: Statistics, near: float = 1e-5) -> bool:
    """Counts, least and greatest to the letter; sums as float32 has them."""
    exact = all(
        a == b or (isnan(a) and isnan(b)) for a, b in zip(one[5:7], other[5:7], strict=True)
    )
    scale = near * max(abs(other.max), abs(other.min)) if np.isfinite(other.max) else 0.0
    sums = np.allclose(one[7:9], other[7:9], rtol=near, atol=scale, equal_nan=True)
    return one[:5] == other[:5] and exact and bool(sums)


@pytest.mark.parametrize("largest", [1 << 22, 7])
def test_every_layout_has_the_statistics_of_its_elements(
    largest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gradscope.watch.values.devices import reductions

    monkeypatch.setattr(reductions, "LARGEST", largest)
    tensors = list(of_every_layout())
    for tensor, found in zip(tensors, measured(tensors), strict=True):
        assert is_alike(found, expected(tensor)), (tensor.shape, tensor.stride())


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "float32", "float64"])
def test_what_is_not_finite_is_counted_apart(kind: str) -> None:
    import torch

    dtype = getattr(torch, kind)
    largest = torch.finfo(dtype).max
    tensors = [
        torch.tensor(values, dtype=dtype)
        for values in (
            [nan, inf, -inf, inf, 1.0, -2.0, 0.0, -0.0], [nan], [-inf, -inf], [0.0, 0.0],
            [largest, -largest, 1.0], [max(torch.finfo(dtype).tiny, 1e-150)] * 3, [5.0, inf],
            [nan, -3.0],
        )
    ]  # fmt: skip
    tensors += [tensors[0].expand(5, 8), torch.tensor(nan, dtype=dtype).expand(3)]
    for tensor, found in zip(tensors, measured(tensors), strict=True):
        with np.errstate(over="ignore"):
            assert is_alike(found, expected(tensor)), tensor


def test_one_measurement_has_few_temporary_elements(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    from gradscope.watch.values.devices import reductions

    class Largest(TorchDispatchMode):
        seen = 0

        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            result = func(*args, **(kwargs or {}))
            if result.untyped_storage()._cdata != own:
                self.seen = max(self.seen, result.numel())
            return result

    monkeypatch.setattr(reductions, "LARGEST", 1000)
    tensor = torch.randn(300, 70)
    own = tensor.untyped_storage()._cdata
    with Largest() as largest:
        measured([tensor])
    assert 0 < largest.seen <= 1000
