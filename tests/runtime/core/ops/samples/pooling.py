"""Samples of poolings: the greatest, the mean and the norm of windows, and the way back."""

from __future__ import annotations

from tests.runtime.core.ops.written import cases, faults
from tests.runtime.oracle import Fixed, Real

LINE, IMAGE, VOLUME = (2, 3, 7), (2, 3, 5, 6), (1, 2, 4, 5, 4)
FEW = ("float32", "float16", "bfloat16", "int64", "bool", "complex128")

# -- the greatest ----------------------------------------------------------------------------------

cases(
    "max_pool1d",
    [LINE],
    "F.max_pool1d(x, 2)",
    "torch.max_pool1d(x, 3, 2, 1, 2, True)",
    "F.max_pool1d(x[0], (2,), stride=1)",
    dtypes=FEW,
)
cases(
    "max_pool1d_with_indices",
    [LINE],
    "torch.max_pool1d_with_indices(x, 3, 2, 1)",
    "F.max_pool1d_with_indices(x, 2)",
    "F.max_pool1d(x[0], 3, ceil_mode=True, return_indices=True)",
    dtypes=("int64",),
)
cases(
    "max_pool2d",
    [IMAGE],
    "F.max_pool2d(x, 2)",
    "torch.max_pool2d(x, (3, 2), (2, 1), (1, 0), ceil_mode=True)",
    "F.max_pool2d(x[0], 3, 1, dilation=(2, 1))",
    "F.max_pool2d((x * 0).where(x > 1, torch.nan), 3, 2, 1, return_indices=True)",
    "F.max_pool2d(x * 0 - torch.inf, 3, 2, 1, return_indices=True)",
    dtypes=FEW,
)
cases(
    "max_pool2d_with_indices", [IMAGE], "F.max_pool2d_with_indices(x, 3, 1, 1)", dtypes=("int64",)
)
cases(
    "max_pool3d",
    [VOLUME],
    "F.max_pool3d(x, 2)",
    "torch.max_pool3d(x, (2, 3, 2), (1, 2, 2), (1, 1, 0), 1, True)",
    "F.max_pool3d(x[0], 2, 1, dilation=2)",
    dtypes=FEW,
)
cases("max_pool3d_with_indices", [VOLUME], "F.max_pool3d_with_indices(x, 2, 1, 1)", dtypes=())
faults(
    "max_pool1d",
    [LINE],
    "F.max_pool1d(x, 0)",
    "F.max_pool1d(x, 2, 0)",
    "F.max_pool1d(x, 2, padding=2)",
    "F.max_pool1d(x, 2, padding=-1)",
    "F.max_pool1d(x, 2, dilation=0)",
    "F.max_pool1d(x, 9)",
    "F.max_pool1d(x, (2, 2))",
    "F.max_pool1d(x, 2, (1, 1))",
    "F.max_pool1d(x, 2, 1, (1, 1))",
    "F.max_pool1d(x, 2, 1, 1, (1, 1))",
    "F.max_pool1d(x[0, 0], 2)",
    "F.max_pool1d(x[:, :, :0], 2)",
    "F.max_pool1d(x, 9, return_indices=True)",
    "F.max_pool1d(x, (2, 2), return_indices=True)",
)
faults("max_pool1d", [LINE], "F.max_pool1d(x, 2)", dtype="int64")
faults(
    "max_pool2d",
    [IMAGE],
    "F.max_pool2d(x, 0)",
    "F.max_pool2d(x, 0, 1)",
    "F.max_pool2d(x, 2, 0)",
    "F.max_pool2d(x, 2, -1)",
    "F.max_pool2d(x, 2, padding=2)",
    "F.max_pool2d(x, 2, padding=-1)",
    "F.max_pool2d(x, 2, dilation=0)",
    "F.max_pool2d(x, 9)",
    "F.max_pool2d(x, 9, 1)",
    "F.max_pool2d(x, (1, 2, 3))",
    "F.max_pool2d(x, 2, (1, 2, 3))",
    "F.max_pool2d(x, 2, padding=(1, 1, 1))",
    "F.max_pool2d(x, 2, dilation=(1, 1, 1))",
    "F.max_pool2d(x, 2.5)",
    "F.max_pool2d(x, None)",
    "F.max_pool2d(x[0, 0], 2)",
    "F.max_pool2d(x[:, :0], 2)",
)
faults("max_pool2d", [IMAGE], "F.max_pool2d(x, 2)", dtype="bool")
faults(
    "max_pool3d",
    [VOLUME],
    "F.max_pool3d(x, 9)",
    "F.max_pool3d(x, (1, 2))",
    "F.max_pool3d(x, 2, (1, 2))",
    "F.max_pool3d(x, 2, -1)",
    "F.max_pool3d(x, 2, padding=(1, 2))",
    "F.max_pool3d(x, 2, dilation=(1, 2))",
    "F.max_pool3d(x[0, 0], 2)",
    "F.max_pool3d(x[:, :0], 2)",
)

# -- the mean --------------------------------------------------------------------------------------

cases(
    "avg_pool1d",
    [LINE],
    "F.avg_pool1d(x, 2)",
    "torch.avg_pool1d(x, 3, 2, 1, True, False)",
    "F.avg_pool1d(x[0], (3,), padding=1)",
    dtypes=FEW,
)
cases(
    "avg_pool2d",
    [IMAGE],
    "F.avg_pool2d(x, 2)",
    "F.avg_pool2d(x, (3, 2), (2, 1), (1, 0), ceil_mode=True)",
    "F.avg_pool2d(x[0], 3, 2, 1, count_include_pad=False)",
    "F.avg_pool2d(x, 2, divisor_override=-3)",
    dtypes=FEW,
)
cases("avg_pool2d", [IMAGE], "F.avg_pool2d(x, 2, out=torch.zeros(2).to(x.dtype))", grad=False)
cases(
    "avg_pool3d",
    [VOLUME],
    "F.avg_pool3d(x, 2)",
    "F.avg_pool3d(x, (2, 3, 2), (1, 2, 2), (1, 1, 0), True, False)",
    "F.avg_pool3d(x[0], 2, 1, divisor_override=2)",
    dtypes=FEW,
)
faults(
    "avg_pool1d",
    [LINE],
    "F.avg_pool1d(x[0, 0], 2)",
    "F.avg_pool1d(x, 2, 0)",
    "F.avg_pool1d(x, (2, 2))",
    "F.avg_pool1d(x, 2, (2, 2))",
    "F.avg_pool1d(x, 2, padding=2)",
    "F.avg_pool1d(x, 9)",
    "F.avg_pool1d(x[:, :, :0], 2)",
)
faults(
    "avg_pool2d",
    [IMAGE],
    "F.avg_pool2d(x[0, 0], 2)",
    "F.avg_pool2d(x[None], 2)",
    "F.avg_pool2d(x, (1, 2, 3))",
    "F.avg_pool2d(x, 2, (1, 2, 3))",
    "F.avg_pool2d(x, 2, padding=(1, 2, 3))",
    "F.avg_pool2d(x, 0, 1)",
    "F.avg_pool2d(x, 2, -1)",
    "F.avg_pool2d(x, 2, padding=2)",
    "F.avg_pool2d(x, 2, divisor_override=0)",
    "F.avg_pool2d(x, 9)",
    "F.avg_pool2d(x, 9, 1)",
)
faults("avg_pool2d", [IMAGE], "F.avg_pool2d(x, 2)", dtype="int32")
faults(
    "avg_pool3d",
    [VOLUME],
    "F.avg_pool3d(x[0, 0], 2)",
    "F.avg_pool3d(x, (1, 2))",
    "F.avg_pool3d(x, 2, (1, 2))",
    "F.avg_pool3d(x, 2, padding=(1, 2))",
    "F.avg_pool3d(x, 2, divisor_override=0)",
    "F.avg_pool3d(x, 9)",
    "F.avg_pool3d(x[:, :0], 2)",
)
cases("lp_pool1d", [LINE], "F.lp_pool1d(x, 3, 2)", "F.lp_pool1d(x, torch.inf, 2, 1)", dtypes=())
cases(
    "lp_pool2d",
    [IMAGE],
    "F.lp_pool2d(x, 2, 2)",
    "F.lp_pool2d(x, 2.0, (3, 2), stride=1, ceil_mode=True)",
    "F.lp_pool2d(x, -torch.inf, 2)",
    dtypes=("float32",),
)
cases("lp_pool3d", [VOLUME], "F.lp_pool3d(x, 2, 2)", dtypes=())
faults("lp_pool2d", [IMAGE], "F.lp_pool2d(x, 2, (2, 2, 2))", "F.lp_pool2d(x, 2, (2,))")

# -- to a size that is asked for -------------------------------------------------------------------

cases(
    "adaptive_avg_pool1d",
    [LINE],
    "F.adaptive_avg_pool1d(x, 3)",
    "torch.adaptive_avg_pool1d(x[0], (1,))",
    "F.adaptive_avg_pool1d(x, 9)",
    dtypes=FEW,
)
cases(
    "adaptive_avg_pool2d",
    [IMAGE],
    "F.adaptive_avg_pool2d(x, 1)",
    "F.adaptive_avg_pool2d(x, (2, 4))",
    "F.adaptive_avg_pool2d(x[0], (None, 3))",
    dtypes=FEW,
)
cases("adaptive_avg_pool2d", [IMAGE], "F.adaptive_avg_pool2d(x, 0)", dtypes=FEW, grad=False)
cases(
    "adaptive_avg_pool3d",
    [VOLUME],
    "F.adaptive_avg_pool3d(x, 1)",
    "F.adaptive_avg_pool3d(x[0], (2, 3, 3))",
    dtypes=FEW,
)
cases(
    "adaptive_max_pool1d",
    [LINE],
    "torch.adaptive_max_pool1d(x, 3)",
    "F.adaptive_max_pool1d(x[0], 4)",
    dtypes=FEW,
)
cases(
    "adaptive_max_pool2d",
    [IMAGE],
    "F.adaptive_max_pool2d(x, (2, 4), return_indices=True)",
    "F.adaptive_max_pool2d(x[0], (None, 3))",
    "F.adaptive_max_pool2d(x, 2)",
    dtypes=FEW,
)
cases("adaptive_max_pool3d", [VOLUME], "F.adaptive_max_pool3d(x, (2, 3, 3))", dtypes=FEW)
for _count, _shape in ((1, LINE), (2, IMAGE), (3, VOLUME)):
    _name = f"adaptive_max_pool{_count}d_with_indices"
    cases(_name, [_shape], f"F.{_name}(x, 2)", dtypes=())
for _kind in ("avg", "max"):
    faults(
        f"adaptive_{_kind}_pool1d",
        [LINE],
        f"F.adaptive_{_kind}_pool1d(x[0, 0], 2)",
        f"F.adaptive_{_kind}_pool1d(x, (2, 2))",
        f"F.adaptive_{_kind}_pool1d(x[:, :, :0], 2)",
        f"F.adaptive_{_kind}_pool1d(x, -2)",
        f"F.adaptive_{_kind}_pool1d(x, None)",
    )
    faults(
        f"adaptive_{_kind}_pool2d",
        [IMAGE],
        f"F.adaptive_{_kind}_pool2d(x[0, 0], 2)",
        f"F.adaptive_{_kind}_pool2d(x[0], (2, 2, 2))",
        f"F.adaptive_{_kind}_pool2d(x, (2,))",
        f"F.adaptive_{_kind}_pool2d(x[:, :, :0], 2)",
        f"F.adaptive_{_kind}_pool2d(x, -2)",
    )
    faults(
        f"adaptive_{_kind}_pool3d",
        [VOLUME],
        f"F.adaptive_{_kind}_pool3d(x[0, 0], 2)",
        f"F.adaptive_{_kind}_pool3d(x, (2, 2))",
        f"F.adaptive_{_kind}_pool3d(x, -2)",
    )

# -- the way back, and windows at random distances -------------------------------------------------

PLACES = Fixed([[[0, 3, 4]] * 3] * 2)
cases(
    "max_unpool1d",
    [(2, 3, 3), PLACES],
    "F.max_unpool1d(x, y, 2)",
    "F.max_unpool1d(x[0], y[0], 2, output_size=(7,))",
    dtypes=FEW,
    strided=False,  # PyTorch refuses the gradient
)
cases(
    "max_unpool2d",
    [(2, 3, 3), PLACES],
    "F.max_unpool2d(x, y, 2)",
    "F.max_unpool2d(x[None], y[None], (2, 2), output_size=(1, 2, 5, 6))",
    dtypes=FEW,
    strided=False,
)
PLACES_3D = Fixed([[[[0, 3, 4]] * 3]] * 2)
cases(
    "max_unpool3d",
    [(2, 1, 3, 3), PLACES_3D],
    "F.max_unpool3d(x, y, 2)",
    strided=False,
)
faults(
    "max_unpool2d",
    [(2, 3, 3), PLACES],
    "F.max_unpool2d(x[0], y[0], 2)",
    "F.max_unpool2d(x, x, 2)",
    "F.max_unpool2d(x, y[:, :2], 2)",
    "F.max_unpool2d(x, y * 0 - 1, 2)",
    "F.max_unpool2d(x, y, 2, output_size=(9, 9))",
    "F.max_unpool2d(x, y, 2, output_size=(9,))",
    "F.max_unpool2d(x[:, :0], y[:, :0], 2)",
)
faults("max_unpool1d", [(2, 3, 3), PLACES], "F.max_unpool1d(x, y[:1], 2)")
faults(
    "max_unpool3d",
    [(2, 1, 3, 3), PLACES_3D],
    "F.max_unpool3d(x[0], y[0], 2)",
    "F.max_unpool3d(x, x, 2)",
    "F.max_unpool3d(x, y, 2, (0, 1, 1))",
)
WHERE_2D, WHERE_3D = Real((2, 3, 2), 0, 1), Real((1, 2, 3), 0, 1)
FLOATS = ("float32", "bfloat16")
cases(
    "fractional_max_pool2d",
    [IMAGE, WHERE_2D],
    "F.fractional_max_pool2d(x, 2, 3, _random_samples=y.detach())",
    "F.fractional_max_pool2d(x[0], (2, 3), output_ratio=(.5, .5), _random_samples=y[:1].detach())",
    dtypes=FLOATS,
)
cases(
    "fractional_max_pool3d",
    [VOLUME, WHERE_3D],
    "F.fractional_max_pool3d(x, 2, (2, 2, 1), _random_samples=y.detach(), return_indices=True)",
    dtypes=FLOATS,
)
for _count, _shape in ((2, IMAGE), (3, VOLUME)):
    _name = f"fractional_max_pool{_count}d_with_indices"
    cases(
        _name, [_shape], f"[torch.manual_seed(0), F.{_name}(x, 2, 2)][1]", dtypes=(), strided=False
    )
faults(
    "fractional_max_pool2d",
    [IMAGE, WHERE_2D],
    "F.fractional_max_pool2d(x, 2)",
    "F.fractional_max_pool2d(x, 2, 7)",
    "F.fractional_max_pool2d(x[0, 0], 2, 2)",
    "F.fractional_max_pool2d(x, (2, 2, 2), 2)",
    "F.fractional_max_pool2d(x, 2, (2, 2, 2))",
    "F.fractional_max_pool2d(x, 2, output_ratio=(.5, .5, .5))",
    "F.fractional_max_pool2d(x, 2, 2, _random_samples=y[0].detach())",
    "F.fractional_max_pool2d(x, 2, 2, _random_samples=y[:, :2].detach())",
    "F.fractional_max_pool2d(x, 2, 2, _random_samples=y[:, :, :1].detach())",
    "F.fractional_max_pool2d(x, 2, 2, _random_samples=y.float().detach())",
    "F.fractional_max_pool2d(x, 2, 2, _random_samples=y)",
)
faults(
    "fractional_max_pool3d",
    [VOLUME, WHERE_3D],
    "F.fractional_max_pool3d(x, 2)",
    "F.fractional_max_pool3d(x, 2, 7)",
)
