"""Samples of convolutions, of their transposes, and of windows as columns."""

from __future__ import annotations

from tests.runtime.core.ops.written import cases, faults

SOME = ("float32", "float16", "bfloat16", "int64", "int32", "bool", "complex128")
LINE, IMAGE, VOLUME = (2, 4, 6), (2, 4, 5, 6), (1, 2, 4, 3, 4)

cases(
    "conv1d",
    [LINE, (6, 2, 3), (6,)],
    "torch.conv1d(x, y, z, stride=2, padding=1, groups=2)",
    "torch.nn.functional.conv1d(x[0], y, padding='same', dilation=2, groups=2)",
    dtypes=SOME,
)
cases(
    "conv2d",
    [IMAGE, (2, 4, 3, 2), (2,)],
    "torch.conv2d(x, y, z, [1], (0,))",
    "torch.conv2d(x, y, None, (2, 1), (1, 0), (1, 2))",
    "torch.conv2d(x, y, z, padding='same')",
    "torch.conv2d(x[1], y, z, padding='valid')",
    dtypes=SOME,
)
cases("conv2d", [IMAGE, (8, 1, 2, 2)], "torch.conv2d(x, y, groups=4, padding=1)", dtypes=())
cases("conv2d", [IMAGE, (3, 4, 1, 1)], "torch.conv2d(x, y, stride=2)", dtypes=())
cases("conv2d", [(0, 4, 5, 6), (3, 4, 1, 1)], "torch.conv2d(x, y)", dtypes=(), order=1)
cases("conv3d", [VOLUME, (3, 2, 2, 2, 3), (3,)], "torch.conv3d(x, y, z, 2, 1)", dtypes=SOME)
cases(
    "conv_transpose1d",
    [LINE, (4, 3, 3), (6,)],
    "torch.conv_transpose1d(x, y, z, 2, 1, 1, 2)",
    dtypes=SOME,
)
cases(
    "conv_transpose2d",
    [IMAGE, (4, 2, 3, 2), (2,)],
    "torch.conv_transpose2d(x, y, z)",
    "torch.conv_transpose2d(x[0], y, None, (2, 3), 1, (1, 2), 1, (1, 2))",
    dtypes=SOME,
)
cases(
    "conv_transpose3d",
    [VOLUME, (2, 2, 2, 2, 2), (2,)],
    "torch.conv_transpose3d(x, y, z, 2, 1, dilation=2)",
    dtypes=SOME,
)
cases(
    "convolution",
    [IMAGE, (4, 4, 3, 2), (4,)],
    "torch.convolution(x, y, z, [1, 1], [0, 1], [1, 1], False, [0, 0], 1)",
    "torch.convolution(x, y, z, [2], [0], [1], True, [1], 1)",
    dtypes=(),
)
cases(
    "conv_tbc",
    [(6, 2, 4), (3, 4, 5), (5,)],
    "torch.conv_tbc(x, y, z)",
    "torch.conv_tbc(x, y, z, 1)",
    "torch.conv_tbc(x, y, z, -1)",
    dtypes=SOME,
    strided=False,
)
cases(
    "unfold",
    [IMAGE],
    "torch.nn.functional.unfold(x, 3, padding=1, stride=2)",
    "torch.nn.functional.unfold(x[0], (3, 2), dilation=(1, 2))",
    dtypes=SOME,
)
cases(
    "fold",
    [(2, 12, 20)],
    "torch.nn.functional.fold(x, (5, 6), (2, 2), stride=1)",
    "torch.nn.functional.fold(x[0], (7, 4), (3, 1), padding=(0, 0), dilation=(1, 3))",
    dtypes=(),
)
cases("fold", [(2, 12, 20)], "torch.nn.functional.fold(x, (5, 6), (2, 2), stride=1)", dtypes=SOME)

_CONV = "torch.conv2d(x, x[:1, :, :3, :3]{})"
faults(
    "conv2d",
    [IMAGE],
    *(
        _CONV.format(options)
        for options in (
            ", stride=0",
            ", stride=(1, 2, 3)",
            ", padding=-1",
            ", padding='foo'",
            ", padding='same', stride=2",
            ", padding='same', dilation=(1, 1, 1)",
            ", dilation=-1",
            ", groups=0",
            ", groups=2",
            ", bias=x[0, 0, 0]",
            ", bias=x[0, 0, 0, :1].float()",
        )
    ),
    "torch.conv2d(x[0, 0], x)",
    "torch.conv2d(x, x[0])",
    "torch.conv2d(x, x[0], padding='same')",
    "torch.conv2d(x, x[:, :3, :3, :3])",
    "torch.conv2d(x, x[:, :2, :3, :3].repeat(2, 1, 1, 1)[:3], groups=2)",
    "torch.conv2d(x, x[:1, :, :, :7].repeat(1, 1, 2, 1))",
    "torch.conv2d(x, x[:1, :, :3, :3].float())",
    "torch.conv2d(x.float(), x[:1, :, :3, :3])",
    "torch.conv2d(x[:, :, :0], x[:1, :, :3, :3], padding=2)",
    "torch.conv2d(x, x[:1, :, :0])",
)
faults("conv1d", [LINE], "torch.conv1d(x[None], x)", "torch.conv1d(x, x[0])")
faults(
    "conv_transpose2d",
    [IMAGE],
    "torch.conv_transpose2d(x, x)",
    "torch.conv_transpose2d(x, x.transpose(0, 1), output_padding=1)",
    "torch.conv_transpose2d(x, x.transpose(0, 1), output_padding=-1)",
    "torch.conv_transpose2d(x, x.transpose(0, 1), x[0, 0, 0])",
    "torch.conv_transpose2d(x, x.transpose(0, 1), padding=9)",
    "torch.conv_transpose2d(x, x.transpose(0, 1), groups=3)",
    "torch.conv_transpose2d(x[0, 0], x)",
)
faults(
    "conv_transpose1d",
    [LINE],
    "torch.conv_transpose1d(x, x.transpose(0, 1), stride=2, output_padding=2)",
)
faults("convolution", [IMAGE], "torch.convolution(x[0], x, None, [1], [0], [1], False, [0], 1)")
_UNFOLD = "torch.nn.functional.unfold(x, {})"
faults(
    "conv_tbc",
    [(6, 2, 4)],
    "torch.conv_tbc(x[0], x, x[0, 0])",
    "torch.conv_tbc(x, x[0], x[0, 0])",
    "torch.conv_tbc(x, x, x)",
    "torch.conv_tbc(x, x, x[0, 0])",
    "torch.conv_tbc(x, x.transpose(1, 2), x[0, 0])",
    "torch.conv_tbc(x[:1], x.transpose(1, 2), x[0, 0, :2])",
    "torch.conv_tbc(x, x.transpose(1, 2).float(), x[0, 0, :2].float())",
)
faults(
    "unfold",
    [IMAGE],
    *(
        _UNFOLD.format(options)
        for options in ("9", "0", "(3, 3, 3)", "3, stride=0", "3, dilation=0", "3, padding=-1")
    ),
    "torch.nn.functional.unfold(x[0, 0], 3)",
    "torch.nn.functional.unfold(x[:, :0], 3)",
    "torch.nn.functional.unfold(x.long(), 3)",
)
_FOLD = "torch.nn.functional.fold(x, {})"
faults(
    "fold",
    [(2, 12, 20)],
    *(
        _FOLD.format(options)
        for options in ("5, 5", "(5, 5), 2", "(1, 1), 2", "(5, 6), 2, stride=0")
    ),
    "torch.nn.functional.fold(x[None], (5, 6), 2)",
    "torch.nn.functional.fold(x.long(), (5, 6), 2)",
)
