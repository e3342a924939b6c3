"""Sampling of images at grid points: the operations of grid_sample."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from gradscope.runtime.core.calls.declare import INTERNAL, TRANSPOSED, family, joint, op, outputs, w
from gradscope.runtime.core.dtypes.names import scalar_name
from gradscope.runtime.core.errors.dtypes import other_dtype, unknown_dtype
from gradscope.runtime.core.kernels.support import HALVES
from gradscope.runtime.core.kernels.windows import grid as kernels
from gradscope.runtime.core.rows.offered import function
from gradscope.runtime.core.tensors.dims import text


def _check(input, grid):
    """PyTorch's checks of both, in its order."""
    if len(input.shape) < 1 or input.shape[0] != grid.shape[0]:
        raise RuntimeError(
            "grid_sampler(): expected grid and input to have same batch size, but got input with "
            f"sizes {text(input.shape)} and grid with sizes {text(grid.shape)}"
        )
    if grid.shape[-1] != input.ndim - 2:
        raise RuntimeError(
            f"grid_sampler(): expected grid to have size {input.ndim - 2} in last dimension, but "
            f"got grid with sizes {text(grid.shape)}"
        )
    for dim in range(2, input.ndim):
        if input.shape[dim] <= 0:
            raise RuntimeError(
                "grid_sampler(): expected input to have non-empty spatial dimensions, but input "
                f"has sizes {text(input.shape)} with dimension {dim} being empty"
            )


def _check_dims(input, grid, mode, dims):
    if input.ndim not in (4, 5) or input.ndim != grid.ndim or input.ndim != dims + 2:
        raise RuntimeError(
            "grid_sampler(): expected 4D or 5D input and grid with same number of dimensions, but "
            f"got input with sizes {text(input.shape)} and grid with sizes {text(grid.shape)}"
        )
    if dims == 3 and mode == kernels.BICUBIC:
        raise RuntimeError("grid_sampler(): bicubic interpolation only supports 4D input")


def _check_dtypes(input, grid, dims):
    if input.dtype.kind not in "fV":
        raise unknown_dtype(f"grid_sampler_{dims}d_cpu" + "_kernel_impl" * (dims == 2), input)
    if input.dtype != grid.dtype:
        raise other_dtype(scalar_name(input), grid)


def _wide(*arrays: Any) -> list[Any]:
    """Halves as float32."""
    return [a.astype(np.float32) if a is not None and a.dtype in HALVES else a for a in arrays]


def _forward(dims):
    def kernel(input, grid, interpolation_mode, padding_mode, align_corners):
        _check(input, grid)
        _check_dims(input, grid, interpolation_mode, dims)
        _check_dtypes(input, grid, dims)
        options = (interpolation_mode, padding_mode, align_corners)
        if input.dtype in HALVES:
            points = grid.reshape(len(grid), prod(grid.shape[1:-1]), dims)
            made = kernels.sampled_in_halves(input, points, options)
        else:
            made = kernels.sample(input, grid, options)
        return made.reshape(*input.shape[:2], *grid.shape[1:-1])

    return kernel


def _backward(dims):
    def kernel(
        grad_output, input, grid, interpolation_mode, padding_mode, align_corners, output_mask
    ):
        grad, x, points = _wide(grad_output, input, grid)
        options = (interpolation_mode, padding_mode, align_corners)
        made = kernels.sample_backward(kernels.flattened(grad), x, points, options, output_mask)
        return tuple(
            None if one is None else one.reshape(like.shape).astype(like.dtype, copy=False)
            for one, like in zip(made, (input, grid), strict=True)
        )

    return kernel


def _double_backward(dims):
    """The gradients of `_backward` by its inputs, from those of its results (None: undefined)."""

    def kernel(
        grad_output,
        input,
        grid,
        to_input=None,
        to_grid=None,
        interpolation_mode=0,
        padding_mode=0,
        align_corners=False,
        output_mask=(True, True, True),
    ):
        grad, x, points, again, by = _wide(grad_output, input, grid, to_input, to_grid)
        options = (interpolation_mode, padding_mode, align_corners)
        found = kernels.axes(points, input.shape[2:], *options)
        at, size = kernels.where(found), prod(input.shape[2:])
        grad, x = kernels.flattened(grad), kernels.flattened(x)
        made: list[Any] = [None, None, None]
        if again is not None:
            again = kernels.flattened(again)
            weights = kernels.together(found, (0,) * dims)
            made[0] = kernels.gathered(again, at, weights)
            made[2] = kernels.by_point(found, kernels.products(again, at, grad))
        if by is not None:
            by = by.reshape(len(by), -1, dims)
            weights = kernels.moved(found, by)
            parts = kernels.products(x, at, grad)
            terms: tuple[Any, ...] = (
                kernels.gathered(x, at, weights),
                kernels.scattered(grad, at, weights, size),
                kernels.by_point_moved(found, parts, by),
            )
            if interpolation_mode == kernels.NEAREST:  # no derivative by the points
                terms = (None, None, terms[2])
            made = [
                a if b is None else b if a is None else a + b
                for a, b in zip(made, terms, strict=True)
            ]
        shapes = (grad_output, input, grid)
        return tuple(
            None
            if value is None or not wanted
            else value.reshape(like.shape).astype(like.dtype, copy=False)
            for value, wanted, like in zip(made, output_mask, shapes, strict=True)
        )

    return kernel


def _no_third(grads, needs):
    raise RuntimeError("gradscope's grid_sample has no third derivative")


def _rows(dims):
    name, title = f"grid_sampler_{dims}d", f"GridSampler{dims}D"
    back, again = f"{name}_backward", f"_{name}_double_backward"

    def to_both(grad, input, grid, interpolation_mode, padding_mode, align_corners, needs):
        options = (interpolation_mode, padding_mode, align_corners)
        return getattr(w, back)(grad, input, grid, *options, needs)

    def to_all(
        grads, grad_output, input, grid, interpolation_mode, padding_mode, align_corners, needs
    ):
        options = (interpolation_mode, padding_mode, align_corners)
        to_grid = grads[1] if len(grads) > 1 else None
        return getattr(w, again)(grad_output, input, grid, grads[0], to_grid, *options, needs)

    return {
        name: op(
            f"{title}Backward0",
            _forward(dims),
            TRANSPOSED,
            INTERNAL,
            joint("input", "grid", by=to_both),
        ),
        back: op(
            f"{title}BackwardBackward0",
            _backward(dims),
            TRANSPOSED,
            INTERNAL,
            outputs("result0", "result1"),
            joint("grad_output", "input", "grid", by=to_all),
        ),
        again: op(
            f"{title}DoubleBackwardBackward0",
            _double_backward(dims),
            TRANSPOSED,
            INTERNAL,
            outputs("result0", "result1", "result2"),
            joint("grad_output", "input", "grid", "to_input", "to_grid", by=_no_third),
        ),
    }


ROWS = {name: row for dims in (2, 3) for name, row in _rows(dims).items()}
globals().update(ROWS)
family(globals())


def _sampled(input, grid, interpolation_mode, padding_mode, align_corners):
    if input.dim() == 5 or grid.dim() == 5:
        return ROWS["grid_sampler_3d"](
            input, grid, interpolation_mode, padding_mode, bool(align_corners)
        )
    return ROWS["grid_sampler_2d"](
        input, grid, interpolation_mode, padding_mode, bool(align_corners)
    )


@function
def grid_sampler(input, grid, interpolation_mode, padding_mode, align_corners):
    """The image at the points of the grid; modes are numbers."""
    _check(input._array, grid._array)
    return _sampled(input, grid, interpolation_mode, padding_mode, align_corners)


@function
def grid_sampler_2d(input, grid, interpolation_mode, padding_mode, align_corners):
    return ROWS["grid_sampler_2d"](
        input, grid, interpolation_mode, padding_mode, bool(align_corners)
    )


@function
def grid_sampler_3d(input, grid, interpolation_mode, padding_mode, align_corners):
    return ROWS["grid_sampler_3d"](
        input, grid, interpolation_mode, padding_mode, bool(align_corners)
    )
