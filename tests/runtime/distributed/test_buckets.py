"""Which parameters lie in one bucket, as PyTorch assigns them."""

from __future__ import annotations

from typing import Any

import pytest

from gradscope.runtime.distributed.buckets import NO_LIMIT, assigned, in_reverse
from tests.runtime.both import runtime


def tensors(torch: Any, *sizes: tuple[int, str]) -> list[Any]:
    return [torch.zeros(size, dtype=getattr(torch, dtype)) for size, dtype in sizes]


SIZES = {
    "one dtype": [(each, "float32") for each in (10, 20, 30, 40, 50, 60)],
    "two dtypes": [
        (10, "float32"), (9, "float64"), (30, "float32"), (5, "float64"), (70, "float64"),
        (2, "float32"),
    ],
    "one": [(3, "float32")],
    "empty ones": [(0, "float32"), (200, "float32"), (0, "float32")],
}  # fmt: skip
LIMITS = ([NO_LIMIT], [40, 200], [100], [1], [40, 80, 120])


@pytest.mark.torch
@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize("limits", LIMITS)
def test_buckets_are_those_of_pytorch(name: str, limits: list[int]) -> None:
    import torch
    from torch.distributed import _compute_bucket_assignment_by_size

    theirs, _ = _compute_bucket_assignment_by_size(tensors(torch, *SIZES[name]), limits)

    assert in_reverse(tensors(runtime(), *SIZES[name]), limits) == [*theirs][::-1]


def test_a_bucket_is_full_at_its_limit_and_the_last_limit_repeats() -> None:
    four = tensors(runtime(), *[(10, "float32")] * 5)

    assert assigned(four, [40, 80]) == [[0], [1, 2], [3, 4]]
    assert assigned(four, [NO_LIMIT]) == [[0, 1, 2, 3, 4]]
