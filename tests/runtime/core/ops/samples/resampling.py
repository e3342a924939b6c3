"""Samples of pictures in another size, seen through a grid, and shuffled."""

from __future__ import annotations

from tests.runtime.core.ops.written import cases, faults
from tests.runtime.oracle import Real

LINE, IMAGE, VOLUME = (2, 3, 6), (2, 3, 5, 6), (1, 2, 4, 5, 3)
FEW = ("float32", "float16", "bfloat16", "uint8", "int64", "complex128")

cases(
    "interpolate",
    [LINE],
    "F.interpolate(x, 9)",
    "F.interpolate(x, scale_factor=1.7, mode='linear')",
    "F.interpolate(x, 4, mode='nearest-exact')",
    "F.interpolate(x, 4, mode='area')",
    "F.interpolate(x, 1, mode='linear', align_corners=True)",
    dtypes=FEW,
)
cases(
    "interpolate",
    [IMAGE],
    "F.interpolate(x, scale_factor=2)",
    "F.interpolate(x, (3, 9), mode='bilinear')",
    "F.interpolate(x, scale_factor=(1.5, 0.7), mode='bilinear', align_corners=True)",
    "F.interpolate(x, scale_factor=1.5, mode='bicubic', recompute_scale_factor=True)",
    "F.interpolate(x, (7, 4), mode='bicubic', align_corners=True)",
    "F.interpolate(x, (2, 9), mode='bilinear', antialias=True)",
    "F.interpolate(x, (2, 9), mode='bicubic', antialias=True, align_corners=True)",
    "F.interpolate(x, scale_factor=1.3, mode='nearest-exact')",
    "F.interpolate(x, scale_factor=0.6, mode='area')",
    "F.interpolate(x, (2, 3), mode='lanczos', antialias=True)",
    dtypes=FEW,
)
cases(
    "interpolate",
    [VOLUME],
    "F.interpolate(x, (3, 5, 7))",
    "F.interpolate(x, scale_factor=1.5, mode='trilinear')",
    "F.interpolate(x, (3, 5, 7), mode='nearest-exact')",
    dtypes=("float32", "uint8"),
)
faults(
    "interpolate",
    [IMAGE],
    "F.interpolate(x)",
    "F.interpolate(x, 0)",
    "F.interpolate(x, scale_factor=0.1)",
    "F.interpolate(x[:, :0], 3)",
    "F.interpolate(x[0, 0], 3)",
    "F.interpolate(x[0], (3, 3))",
    "F.interpolate(x, (3., 3))",
    "F.interpolate(x, 3, scale_factor=2)",
    "F.interpolate(x, scale_factor=(1, 2, 3))",
    "F.interpolate(x, 3, recompute_scale_factor=True)",
    "F.interpolate(x, 3, align_corners=False)",
    "F.interpolate(x, 3, antialias=True)",
    "F.interpolate(x, 3, mode='linear')",
    "F.interpolate(x, 3, mode='trilinear')",
    "F.interpolate(x, 3, mode='none')",
    "F.interpolate(x, 3, mode='lanczos')",
    "F.interpolate(x, 3, mode='lanczos', antialias=True, align_corners=True)",
    "F.interpolate(x[0], 3, mode='bilinear')",
    "F.interpolate(x[None], 3, mode='linear')",
    "F.interpolate(x[0, :, :, :0], 3)",
)
cases("upsample", [IMAGE], "F.upsample(x, 7)", dtypes=())
cases("upsample_nearest", [IMAGE], "F.upsample_nearest(x, scale_factor=2)", dtypes=())
cases("upsample_bilinear", [IMAGE], "F.upsample_bilinear(x, (7, 3))", dtypes=())

# -- through a grid --------------------------------------------------------------------------------

GRID_2D, GRID_3D = Real((2, 3, 4, 2), -1.4, 1.4), Real((1, 2, 3, 2, 3), -1.4, 1.4)
FLOATS = ("float32", "float16", "bfloat16")
cases(
    "grid_sample",
    [IMAGE, GRID_2D],
    *(
        f"F.grid_sample(x, y, '{mode}', '{edge}', {align})"
        for mode, edge, align in (
            ("bilinear", "zeros", False),
            ("bilinear", "border", True),
            ("bilinear", "reflection", False),
            ("bilinear", "reflection", True),
            ("nearest", "zeros", False),
            ("nearest", "reflection", True),
            ("bicubic", "zeros", False),
            ("bicubic", "border", True),
            ("bicubic", "reflection", False),
        )
    ),
    "F.grid_sample(x, y)",
    dtypes=FLOATS,
)
cases(
    "grid_sample",
    [VOLUME, GRID_3D],
    *(
        f"F.grid_sample(x, y, '{mode}', '{edge}', {align})"
        for mode, edge, align in (
            ("bilinear", "zeros", True),
            ("bilinear", "border", False),
            ("bilinear", "reflection", False),
            ("nearest", "border", True),
        )
    ),
    dtypes=FLOATS,
)
cases("grid_sampler", [IMAGE, GRID_2D], "torch.grid_sampler(x, y, 0, 1, True)", dtypes=())
cases("grid_sampler_2d", [IMAGE, GRID_2D], "torch.grid_sampler_2d(x, y, 2, 0, False)", dtypes=())
cases("grid_sampler_3d", [VOLUME, GRID_3D], "torch.grid_sampler_3d(x, y, 0, 2, True)", dtypes=())
faults(
    "grid_sample",
    [IMAGE, GRID_2D],
    "F.grid_sample(x, y[..., :1])",
    "F.grid_sample(x, y[:1])",
    "F.grid_sample(x, y[0])",
    "F.grid_sample(x[0], y)",
    "F.grid_sample(x[:, :, :0], y)",
    "F.grid_sample(x, y.float())",
    "F.grid_sample(x, y, 'none')",
    "F.grid_sample(x, y, 'nearest', 'none')",
)
faults("grid_sample", [VOLUME, GRID_3D], "F.grid_sample(x, y, 'bicubic')")
faults("grid_sample", [IMAGE, GRID_2D], "F.grid_sample(x, y)", dtype="int64")
cases(
    "affine_grid",
    [(2, 2, 3)],
    "F.affine_grid(x, (2, 1, 3, 4))",
    "F.affine_grid(x, (2, 1, 3, 4), align_corners=True)",
    "F.affine_grid(x, (2, 1, 1, 4), align_corners=True)",
    dtypes=("float32", "float16"),
)
cases("affine_grid", [(1, 3, 4)], "F.affine_grid(x, (1, 2, 3, 2, 4), False)", dtypes=())
cases(
    "affine_grid_generator",
    [(2, 2, 3)],
    "torch.affine_grid_generator(x, (2, 1, 3, 4), True)",
    dtypes=(),
)
faults(
    "affine_grid",
    [(2, 2, 3)],
    "F.affine_grid(x, (2, 1, 3))",
    "F.affine_grid(x[:, :1], (2, 1, 3, 4))",
    "F.affine_grid(x, (2, 1, 3, 4, 5))",
    "F.affine_grid(x, (2, 1, 0, 4))",
    "F.affine_grid(x, (1, 1, 3, 4))",
    "F.affine_grid(x.long(), (2, 1, 3, 4))",
)
faults("affine_grid_generator", [(2, 2, 3)], "torch.affine_grid_generator(x, (2, 1, 3), True)")

# -- shuffled --------------------------------------------------------------------------------------

MANY = ("float32", "bfloat16", "int64", "bool", "complex128")
cases(
    "pixel_shuffle",
    [(2, 8, 2, 3)],
    "F.pixel_shuffle(x, 2)",
    "torch.pixel_shuffle(x[0], 1)",
    dtypes=MANY,
)
cases("pixel_shuffle", [(2, 8, 2, 3)], "F.pixel_shuffle(x[:0], 2)", dtypes=(), grad=False)
cases("pixel_unshuffle", [(2, 3, 4, 6)], "F.pixel_unshuffle(x, 2)", dtypes=MANY)
cases(
    "channel_shuffle",
    [(2, 6, 3)],
    "F.channel_shuffle(x, 2)",
    "torch.channel_shuffle(x, 3)",
    dtypes=MANY,
)
cases("native_channel_shuffle", [(2, 6, 3, 1)], "F.native_channel_shuffle(x, 2)", grad=False)
for _name, _shape in (("pixel_shuffle", (3, 2, 2)), ("pixel_unshuffle", (2, 3, 3))):
    faults(_name, [_shape], f"F.{_name}(x, 2)", f"F.{_name}(x, 0)", f"F.{_name}(x[0], 2)")
faults("pixel_unshuffle", [(2, 4, 3)], "F.pixel_unshuffle(x, 2)")
faults(
    "channel_shuffle",
    [(2, 5, 3)],
    "F.channel_shuffle(x, 2)",
    "F.channel_shuffle(x, 0)",
    "F.channel_shuffle(x[0], 2)",
)
