"""Values that occur, each once."""

from __future__ import annotations

from typing import Any

import pytest


def test_the_older_unique_says_where_values_are_if_asked(torch: Any) -> None:
    numbers = torch.tensor([3.0, 1.0, 1.0], requires_grad=True)

    values, places = torch._unique(numbers, return_inverse=True)
    assert (values.tolist(), places.tolist()) == ([1.0, 3.0], [1, 0, 0])
    assert type(values.grad_fn).__name__ == "UniqueBackward0"
    with pytest.raises(NotImplementedError, match="the derivative for '_unique' is not"):
        values.sum().backward()
    assert torch._unique(numbers.detach())[1].numel() == 0
