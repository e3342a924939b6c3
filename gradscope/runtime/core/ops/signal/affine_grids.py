"""affine_grid, and the public grid_sample."""

from __future__ import annotations

import numpy as np

from gradscope.runtime.core.calls.declare import FUNCTION_ONLY, LINEAR, family, op
from gradscope.runtime.core.errors.dtypes import unknown_dtype
from gradscope.runtime.core.kernels.support import HALVES
from gradscope.runtime.core.ops.in_formulas import on_arrays
from gradscope.runtime.core.ops.signal.grid_sampling import grid_sampler
from gradscope.runtime.core.rows.offered import nn_function
from gradscope.runtime.core.state.warned import warn
from gradscope.runtime.core.tensors.making.sequences import spaced
from gradscope.runtime.core.tensors.placement import wrapped_on

MODES = {"bilinear": 0, "nearest": 1, "bicubic": 2}
EDGES = {"zeros": 0, "border": 1, "reflection": 2}


def _steps(count, align, kind):
    """Evenly spaced coordinates between -1 and 1."""
    if count <= 1:
        return np.zeros(count, kind)
    made = spaced("linspace", -1, 1, count, kind)
    return made if align else made * kind.type(count - 1) / kind.type(count)


def base_grid(size, align, kind):
    """Homogeneous coordinates of all pixels, one row each."""
    spatial = size[2:]
    dims = len(spatial)
    made = np.ones((*spatial, dims + 1), kind)
    for dim, count in enumerate(spatial):
        steps = _steps(count, align, kind)
        made[..., dims - 1 - dim] = steps.reshape(-1, *(1,) * (dims - 1 - dim))
    return made.reshape(-1, dims + 1)


def _affine_grid(theta, size, align_corners):
    if len(size) not in (4, 5):
        raise RuntimeError("AffineGridGenerator needs 4d (spatial) or 5d (volumetric) inputs.")
    wide = theta.astype(np.float32) if theta.dtype in HALVES else theta
    if wide is not theta and min(size[2:]) <= 1:
        raise unknown_dtype("tensor_cpu", theta)
    if theta.shape[0] != size[0]:
        raise RuntimeError(
            "Expected size for first two dimensions of batch2 tensor to be: "
            f"[{size[0]}, {len(size) - 1}] but got: [{theta.shape[0]}, {theta.shape[-1]}]."
        )
    base = base_grid(size, align_corners, wide.dtype)
    made = np.matmul(base, wide.transpose(0, 2, 1))
    return made.reshape(size[0], *size[2:], len(size) - 2).astype(theta.dtype, copy=False)


def _affine_grid_backward(grad, size, align_corners):
    """The coordinates times the gradient, one product for each sample."""
    dims = len(size) - 2
    rows = int(np.prod(size[2:], dtype=int))
    if on_arrays(grad):
        wide = grad.astype(np.float32) if grad.dtype in HALVES else grad
        base = base_grid(size, align_corners, wide.dtype)
        made = np.matmul(base.T, wide.reshape(size[0], rows, dims))
        return made.transpose(0, 2, 1).astype(grad.dtype, copy=False)
    base = wrapped_on(base_grid(size, align_corners, grad._array.dtype), grad.device)
    columns = base.expand(size[0], rows, dims + 1).transpose(1, 2)
    return columns.bmm(grad.reshape(size[0], rows, dims)).transpose(1, 2)


affine_grid_generator = op(
    "AffineGridGeneratorBackward0",
    _affine_grid,
    LINEAR,
    FUNCTION_ONLY,
    theta=_affine_grid_backward,
)
family(globals())


def _default_alignment(align_corners):
    if align_corners is None:
        warn(
            "Default grid_sample and affine_grid behavior has changed to align_corners=False since "
            "1.3.0. Please specify align_corners=True if the old behavior is desired. See the "
            "documentation of grid_sample for details."
        )
    return bool(align_corners)


@nn_function
def affine_grid(theta, size, align_corners=None):
    """The coordinates that the affine map assigns to each pixel of an image of this size."""
    align_corners = _default_alignment(align_corners)
    if not theta.is_floating_point():
        raise ValueError(f"Expected theta to have floating point type, but got {theta.dtype}")
    if len(size) not in (4, 5):
        raise NotImplementedError(
            "affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, "
            f"respectively. Got size {size}."
        )
    dims = len(size) - 2
    if theta.dim() != 3 or tuple(theta.shape[-2:]) != (dims, dims + 1):
        raise ValueError(
            f"Expected a batch of {dims}D affine matrices of shape Nx{dims}x{dims + 1} for size "
            f"{size}. Got {theta.shape}."
        )
    if align_corners and min(size[-dims:]) == 1:
        warn(
            "Since version 1.3.0, affine_grid behavior has changed for unit-size grids when "
            "align_corners=True. This is not an intended use case of affine_grid. See the "
            "documentation of affine_grid for details."
        )
    elif min(size) <= 0:
        raise ValueError(f"Expected non-zero, positive output size. Got {size}")
    return affine_grid_generator(theta, tuple(size), align_corners)


@nn_function
def grid_sample(input, grid, mode="bilinear", padding_mode="zeros", align_corners=None):
    """The image at the points of the grid, whose coordinates range from -1 to 1."""
    if mode not in MODES:
        raise ValueError(
            "nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', "
            f"but got: '{mode}'"
        )
    if padding_mode not in EDGES:
        raise ValueError(
            "nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or "
            f"'reflection', but got: '{padding_mode}'"
        )
    align_corners = _default_alignment(align_corners)
    return grid_sampler(input, grid, MODES[mode], EDGES[padding_mode], align_corners)
