"""`interpolate` and its older names: resizing of one to three spatial dims."""

from __future__ import annotations

from gradscope.runtime.core.ops.signal.upsampling import ROWS
from gradscope.runtime.core.rows.offered import NN_FUNCTIONS, nn_function
from gradscope.runtime.core.state.warned import warn

UNALIGNED = ("nearest", "area", "nearest-exact")
ROW_OF = {
    ("nearest", 3): "upsample_nearest1d",
    ("nearest", 4): "upsample_nearest2d",
    ("nearest", 5): "upsample_nearest3d",
    ("nearest-exact", 3): "_upsample_nearest_exact1d",
    ("nearest-exact", 4): "_upsample_nearest_exact2d",
    ("nearest-exact", 5): "_upsample_nearest_exact3d",
    ("linear", 3): "upsample_linear1d",
    ("bilinear", 4): "upsample_bilinear2d",
    ("trilinear", 5): "upsample_trilinear3d",
    ("bicubic", 4): "upsample_bicubic2d",
}
SMOOTHED = ("bilinear", "bicubic", "lanczos")
DIMS_OF = {"linear": 3, "bilinear": 4, "trilinear": 5}


def _is_whole(value):
    return hasattr(value, "__index__") and not isinstance(value, bool | float)


def _checked_size(input, size, dims):
    if not isinstance(size, list | tuple):
        return [size] * dims
    if len(size) != dims:
        raise ValueError(
            "Input and output must have the same number of spatial dimensions, but got input with "
            f"spatial dimensions of {list(input.shape[2:])} and output size of {size}. Please "
            "provide input tensor in (N, C, d1, d2, ...,dK) format and output size in "
            "(o1, o2, ...,oK) format."
        )
    if not all(map(_is_whole, size)):
        raise TypeError(
            "expected size to be one of int or Tuple[int] or Tuple[int, int] or "
            f"Tuple[int, int, int], but got size with types {[type(x) for x in size]}"
        )
    return size


def _checked_scales(input, scale_factor, dims):
    if not isinstance(scale_factor, list | tuple):
        return [scale_factor] * dims
    if len(scale_factor) != dims:
        raise ValueError(
            "Input and scale_factor must have the same number of spatial dimensions, but got input "
            f"with spatial dimensions of {list(input.shape[2:])} and scale_factor of shape "
            f"{scale_factor}. Please provide input tensor in (N, C, d1, d2, ...,dK) format and "
            "scale_factor in (s1, s2, ...,sK) format."
        )
    return scale_factor


def _sizes_and_scales(input, size, scale_factor, mode, recompute):
    """The requested size, or the scale for each dim."""
    dims = input.dim() - 2
    if size is not None and scale_factor is not None:
        raise ValueError("only one of size or scale_factor should be defined")
    if size is not None:
        sizes, scales = _checked_size(input, size, dims), None
    elif scale_factor is not None:
        sizes, scales = None, _checked_scales(input, scale_factor, dims)
    else:
        raise ValueError("either size or scale_factor should be defined")
    if recompute and size is not None:
        raise ValueError("recompute_scale_factor is not meaningful with an explicit size.")
    if scales is not None and (recompute or mode == "area"):
        sizes = [int(input.size(i + 2) * scale) for i, scale in enumerate(scales)]
        scales = None
    return sizes, scales


@nn_function
def interpolate(
    input,
    size=None,
    scale_factor=None,
    mode="nearest",
    align_corners=None,
    recompute_scale_factor=None,
    antialias=False,
):
    """Resize to a given size, or by a scale."""
    if mode in UNALIGNED:
        if align_corners is not None:
            raise ValueError(
                "align_corners option can only be set with the interpolating modes: linear | "
                "bilinear | bicubic | trilinear"
            )
    elif align_corners is None:
        align_corners = False
    sizes, scales = _sizes_and_scales(input, size, scale_factor, mode, recompute_scale_factor)
    dim = input.dim()
    if antialias and not (mode in SMOOTHED and dim == 4):
        raise ValueError(
            "Anti-alias option is restricted to bilinear, bicubic, and lanczos modes and requires "
            "a 4-D tensor as input"
        )
    if mode == "area" and dim in (3, 4, 5):
        return NN_FUNCTIONS[f"adaptive_avg_pool{dim - 2}d"](input, sizes)
    if mode == "lanczos" and dim == 4:
        if align_corners:
            raise ValueError("Lanczos mode does not support align_corners=True")
        if not antialias:
            raise ValueError("Lanczos mode requires antialias=True")
    name = f"_upsample_{mode}2d_aa" if antialias else ROW_OF.get((mode, dim))
    if name is None:
        raise _no_such_mode(mode, dim)
    return _resized(name, input, sizes, scales, align_corners)


def _resized(name, input, sizes, scales, align_corners):
    if sizes is None:
        if not all(isinstance(scale, int | float) for scale in scales):
            raise TypeError(
                f"{name}() received an invalid combination of arguments - got (Tensor, NoneType, "
                "list), but expected one of:"
            )
        scales = [float(scale) for scale in scales]
        shape = zip(input.shape[2:], scales, strict=True)
        sizes = [int(size * scale) for size, scale in shape]
    elif not all(map(_is_whole, sizes)):
        raise TypeError(
            f"{name}() received an invalid combination of arguments - got (Tensor, list, "
            "NoneType), but expected one of:"
        )
    aligned = () if "nearest" in name else (bool(align_corners),)
    given = [None] * len(sizes) if scales is None else scales
    return ROWS[name](input, tuple(int(size) for size in sizes), *aligned, *given)


def _no_such_mode(mode, dim):
    if dim in (3, 4, 5) and mode in DIMS_OF and (mode, dim) != ("trilinear", 5):
        return NotImplementedError(
            f"Got {dim}D input, but {mode} mode needs {DIMS_OF[mode]}D input"
        )
    return NotImplementedError(
        f"Input Error: Only 3D, 4D and 5D input Tensors supported (got {dim}D) for the modes: "
        "nearest | linear | bilinear | bicubic | trilinear | lanczos | area | nearest-exact "
        f"(got {mode})"
    )


def _deprecated(name):
    warn(
        f"`nn.functional.{name}` is deprecated. Use `nn.functional.interpolate` instead.",
        UserWarning,
    )


@nn_function
def upsample(input, size=None, scale_factor=None, mode="nearest", align_corners=None):
    _deprecated("upsample")
    return interpolate(input, size, scale_factor, mode, align_corners)


@nn_function
def upsample_nearest(input, size=None, scale_factor=None):
    _deprecated("upsample_nearest")
    return interpolate(input, size, scale_factor, mode="nearest")


@nn_function
def upsample_bilinear(input, size=None, scale_factor=None):
    _deprecated("upsample_bilinear")
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)
