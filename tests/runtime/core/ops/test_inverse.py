"""A singular matrix is refused with PyTorch's own kind of error, which names where it showed."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

SINGULAR = [[1.0, 2.0, 0.0], [2.0, 4.0, 0.0], [0.0, 0.0, 1.0]]


@pytest.fixture(params=["gradscope.runtime", pytest.param("torch", marks=pytest.mark.torch)])
def torch(request: pytest.FixtureRequest) -> Any:
    return importlib.import_module(str(request.param))


@pytest.mark.parametrize(
    ("batched", "text"),
    [
        (
            False,
            "The diagonal element 2 is zero, the inversion could not be completed",
        ),
        (True, "(Batch element 1): The diagonal element 2 is zero, the inversion could not be "),
    ],
)
def test_a_singular_matrix_has_no_inverse(torch: Any, *, batched: bool, text: str) -> None:
    matrix = torch.tensor(SINGULAR)
    given = torch.stack([torch.eye(3), matrix]) if batched else matrix

    with pytest.raises(torch.linalg.LinAlgError) as caught:
        torch.linalg.inv(given)

    assert str(caught.value).startswith(f"linalg.inv: {text}")
    assert isinstance(caught.value, RuntimeError)
    assert type(caught.value).__name__ == "_LinAlgError"
