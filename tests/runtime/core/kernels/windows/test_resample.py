"""Resampling and sampling by a grid: the compiled kernels give what plain NumPy gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gradscope.runtime.core.kernels.support import LARGE
from gradscope.runtime.core.kernels.windows import grid, resample, taps

SINGLE = np.dtype(np.float32)
KINDS = [SINGLE, np.dtype(np.float64)]


def numbers(*shape: int, kind: Any = SINGLE) -> Any:
    return np.random.default_rng(len(shape)).normal(size=shape).astype(kind)


def tables(size: int, out: int, kind: Any, *, back: bool) -> list[taps.Taps]:
    return [
        taps.nearest(size, out, None, False, back=back),
        taps.linear(size, out, None, False, kind, back=back),
        taps.cubic(size, out, 1.3, True, kind, back=back),
        taps.smoothed("bilinear", size, out, None, False, kind, back=back),
    ]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("back", [False, True])
@pytest.mark.parametrize(("size", "out"), [(3, 7), (7, 3), (5, 5), (1, 4)])
def test_compiled_maps_along_a_dim_give_what_plain_ones_give(
    size: int, out: int, back: bool, kind: Any
) -> None:
    for table in tables(size, out, kind, back=back):
        for width in (1, 3):
            x = numbers(2, table.size, width, kind=kind)
            made = np.empty((2, table.out, width), kind)

            resample.FAST.kernels.along(x, made, table)

            plain = resample.resample_plain(x.swapaxes(1, 2), [table]).swapaxes(1, 2)
            np.testing.assert_allclose(made, plain, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", [taps.mirrored, taps.repeated])
@pytest.mark.parametrize("edges", [(1, 2), (-1, 1), (2, -2), (0, 0)])
def test_an_edge_and_its_gradient_are_transposed(kind: Any, edges: tuple[int, int]) -> None:
    there, back = kind(4, *edges), kind(4, *edges, back=True)

    forward = resample.resample_plain(np.eye(4), [there])
    backward = resample.resample_plain(np.eye(there.out), [back])

    np.testing.assert_array_equal(forward, backward.T)
    assert there.changes_nothing == back.changes_nothing == (edges == (0, 0))


@pytest.mark.parametrize(("size", "out"), [(3, 7), (7, 3), (5, 5), (1, 4)])
def test_a_map_and_the_one_back_are_transposed(size: int, out: int) -> None:
    kind = np.dtype(np.float64)
    for there, back in zip(
        tables(size, out, kind, back=False), tables(size, out, kind, back=True), strict=True
    ):
        forward = resample.resample_plain(np.eye(size), [there])
        backward = resample.resample_plain(np.eye(out), [back])

        np.testing.assert_allclose(forward, backward.T)


def test_many_elements_take_the_compiled_way_and_give_the_same() -> None:
    x = numbers(LARGE // 256, 16, 16)
    given = [taps.linear(16, 20, None, False, SINGLE), taps.cubic(16, 12, None, False, SINGLE)]

    made = resample.resample(x, given)

    np.testing.assert_allclose(made, resample.resample_plain(x, given), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mode", [grid.BILINEAR, grid.NEAREST, grid.BICUBIC])
@pytest.mark.parametrize("padding", [grid.ZEROS, grid.BORDER, grid.REFLECTION])
@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("dims", [2, 3])
def test_compiled_sampling_gives_what_plain_sampling_gives(
    dims: int, align: bool, padding: int, mode: int, kind: Any
) -> None:
    if dims == 3 and mode == grid.BICUBIC:
        return  # there is no such thing
    x = numbers(2, 3, *(1, 4, 5)[3 - dims :], kind=kind)
    points = numbers(2, 150, dims, kind=kind)
    points[0, :4] = np.array([[np.nan], [np.inf], [-1e9], [1.0]])
    grad = numbers(2, 3, 150, kind=kind)
    options = (mode, padding, align)
    made, to_x, to_points = np.empty_like(grad), np.zeros_like(x), np.zeros_like(points)
    volumes = [a.reshape(2, 3, -1, *a.shape[-2:]) for a in (x, to_x)]
    fast = grid.FAST.kernels

    fast.sample(volumes[0], points, *options, made)
    fast.sample_backward(grad, volumes[0], points, options, (volumes[1], to_points))

    finite = np.isfinite(points).all(-1)
    plain = grid.sample_plain(x, points, options)
    close = {"rtol": 1e-4, "atol": 1e-5}
    np.testing.assert_allclose(made.swapaxes(1, 2)[finite], plain.swapaxes(1, 2)[finite], **close)
    grad[:, :, :4] = 0
    to_x[...], to_points[...] = 0, 0
    fast.sample_backward(grad, volumes[0], points, options, (volumes[1], to_points))
    back, to = grid.sample_backward_plain(grad, x, points, options, (True, True))
    np.testing.assert_allclose(to_x, back, **close)
    np.testing.assert_allclose(to_points[finite], to[finite], **close)


@pytest.mark.torch
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [7, 10, 27, 28])
def test_points_on_the_places_are_on_the_side_pytorch_has_them(size: int, kind: Any) -> None:
    """A map that changes nothing puts all points on places, where the gradient has a kink."""
    import torch

    from gradscope import runtime

    picture = np.square(np.arange(size, dtype=kind)) * np.ones((1, 1, size, 1), kind)
    grads = []
    for engine in (runtime, torch):
        theta = engine.from_numpy(np.eye(2, 3, dtype=kind)[None].copy())
        grid = engine.nn.functional.affine_grid(theta, (1, 1, size, size), align_corners=False)
        grid = grid.detach().requires_grad_(True)
        seen = engine.nn.functional.grid_sample(
            engine.from_numpy(picture), grid, padding_mode="border", align_corners=False
        )
        seen.sum().backward()
        grads.append(grid.grad.numpy()[0, 1:-1, 1:-1, 0])

    np.testing.assert_allclose(grads[0], grads[1], rtol=1e-4)
