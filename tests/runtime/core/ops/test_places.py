"""Numbers in a row and grids of places, to the last bit: what is floored next may turn on it."""

from __future__ import annotations

from typing import Any

import pytest

import gradscope.runtime as ours

pytestmark = pytest.mark.torch


@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("ends", [(-1, 1), (0, 20.0), (2, -7.3)])
def test_linspace_is_rounded_as_pytorch_rounds_it(kind: str, ends: tuple[float, float]) -> None:
    torch = pytest.importorskip("torch")

    differing = [
        count
        for count in (*range(70), 224, 1000)
        if ours.linspace(*ends, count, dtype=getattr(ours, kind)).tolist()
        != torch.linspace(*ends, count, dtype=getattr(torch, kind)).tolist()
    ]

    assert differing == []


@pytest.mark.parametrize("align", [True, False])
@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("size", [5, 28, 33, 100])  # the last is left to the compiled kernels
def test_a_spatial_transformer_that_starts_at_the_identity_learns_as_in_pytorch(
    size: int, kind: str, align: bool
) -> None:
    theirs = pytest.importorskip("torch")

    def gradient(torch: Any) -> Any:
        dtype = getattr(torch, kind)
        places = torch.arange(size * size, dtype=dtype)
        picture = (places * places % 17).reshape(1, 1, size, size)
        theta = torch.eye(2, 3, dtype=dtype).unsqueeze(0).requires_grad_()
        functional = torch.nn.functional
        grid = functional.affine_grid(theta, picture.shape, align_corners=align)
        seen = functional.grid_sample(picture, grid, align_corners=align)
        (seen * picture).sum().backward()
        return theta.grad.flatten().tolist()

    assert gradient(ours) == pytest.approx(gradient(theirs), rel=1e-4)
