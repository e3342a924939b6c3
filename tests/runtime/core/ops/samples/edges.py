"""Samples of padding and normalization."""

from __future__ import annotations

from tests.runtime.core.ops.written import cases, faults

SHAPE = (2, 3, 4)
FEW = ("float32", "bfloat16", "int64")

cases(
    "pad",
    [SHAPE],
    "F.pad(x, (1, 1))",
    "F.pad(x, (1, -1, 0, 2), value=2.0)",
    "F.pad(x, (0, 0, 0, 0, 1, 2))",
    "F.pad(x, (-1, -2))",
    "F.pad(x, (1, 1), mode='constant')",
    dtypes=FEW,
)
cases(
    "pad",
    [SHAPE],
    "F.pad(x, (1, 2), mode='reflect')",
    "F.pad(x, (3, 1), mode='replicate')",
    "F.pad(x, (1, 1), mode='circular')",
    "F.pad(x, (2, 0, 1, 1), mode='reflect')",
    "F.pad(x, (1, 1, 2, 2), mode='replicate')",
    "F.pad(x, (1, 2, 0, 1), mode='circular')",
    dtypes=("float32",),
)
cases(
    "constant_pad_nd",
    [SHAPE],
    "torch.constant_pad_nd(x, (1, 2))",
    "torch.constant_pad_nd(x, (1, 2), 3)",
    dtypes=FEW,
)
for _kind in ("reflection", "replication"):
    for _dims, _pad in ((1, (1, 2)), (2, (1, 2, 1, 0)), (3, (1, 0, 1, 1, 1, 0))):
        _mode = {"reflection": "reflect", "replication": "replicate"}[_kind]
        cases(
            f"{_kind}_pad{_dims}d",
            [(2, 2, 3, 4)[3 - _dims :] if _dims < 3 else (2, 2, 3, 4)],
            f"F.pad(x, {_pad}, mode='{_mode}')",
            dtypes=(),
        )
faults(
    "pad",
    [SHAPE],
    "F.pad(x, (1,))",
    "F.pad(x, (-3, -3))",
    "F.pad(x, (4, 4), mode='reflect')",
    "F.pad(x, (-5, -5), mode='replicate')",
    "F.pad(x, (-3, -2), mode='circular')",
    "F.pad(x, 3)",
    "F.pad(x, (1.5, 1))",
    "F.pad(x[None, None], (1, 1), mode='circular')",
    "F.pad(x[..., :0], (1, 1), mode='replicate')",
    "F.pad(x, (5, 5), mode='circular')",
    "F.pad(x, (1, 1), mode='what')",
    "F.pad(x, (1, 1), mode='reflect', value=3)",
    "F.pad(x, (1,) * 8)",
)
cases(
    "layer_norm",
    [SHAPE, (4,), (4,)],
    "F.layer_norm(x, (4,), y, z)",
    "F.layer_norm(x, (4,))",
    "F.layer_norm(x, (4,), y)",
    "torch.layer_norm(x, (4,), y, z, 0.1)",
    dtypes=("float32",),
    tolerance=10,
)
cases("layer_norm", [SHAPE, (3, 4)], "F.layer_norm(x, (3, 4), y)", dtypes=(), tolerance=10)
faults("layer_norm", [SHAPE], "F.layer_norm(x, (3,))", "F.layer_norm(x, ())")
cases(
    "dropout",
    [SHAPE],
    "torch.manual_seed(0)\nF.dropout(x, 0.5)",
    "F.dropout(x, 0.5, False)",
    "torch.manual_seed(0)\nF.dropout(x, 0.3, inplace=False)",
    "F.dropout(x, 1.0)",
    "F.dropout(x, 0.0)",
    "torch.manual_seed(0)\ntorch.dropout(x, 0.5, True)",
    dtypes=("float32",),
    strided=False,
)
for _name, _shape in {
    "dropout1d": SHAPE,
    "dropout2d": (2, 3, 4, 2),
    "dropout3d": (2, 3, 2, 2, 2),
}.items():
    cases(
        _name,
        [_shape],
        f"torch.manual_seed(0)\nF.{_name}(x, 0.5)",
        dtypes=("float32",),
        strided=False,
    )
faults("dropout", [SHAPE], "F.dropout(x, 2)")
