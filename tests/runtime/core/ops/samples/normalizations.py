"""Samples of what brings values to mean 0 and variance 1."""

from __future__ import annotations

from tests.runtime.core.ops.written import cases, faults

_ones = "torch.ones({}, dtype=x.dtype)".format
BATCH, IMAGES, CHANNELS = (4, 3, 5), (2, 4, 3, 2), (3,)

cases(
    "batch_norm",
    [BATCH, CHANNELS, CHANNELS],
    "F.batch_norm(x, torch.zeros(3, dtype=x.dtype), torch.ones(3, dtype=x.dtype), y, z, True)",
    "F.batch_norm(x, None, None, y, z, training=True)",
    "F.batch_norm(x, None, None, training=True)",
    "F.batch_norm(x, None, None, y, training=True, eps=0.1)",
    "F.batch_norm(x, y.detach(), z.detach() ** 2, z, y, False, 0.3)",
    "F.batch_norm(x, y.detach(), z.detach() ** 2)",
    "F.batch_norm(x[0], None, None, training=True)",
    "F.batch_norm(x[:0], y.detach(), z.detach(), y, z)",
    "torch.batch_norm(x, y, z, None, None, True, 0.1, 1e-5, True)",
    "m, v = y.detach().clone(), z.detach().clone()\nF.batch_norm(x, m, v, y, z, True, 0.3)\nm, v",
    dtypes=("float32", "bfloat16"),
    tolerance=10,
)
cases(
    "native_batch_norm",
    [BATCH, CHANNELS, CHANNELS],
    "torch.native_batch_norm(x, y, z, None, None, True, 0.1, 1e-5)",
    "torch.native_batch_norm(x, y, z, y.detach(), z.detach() ** 2, False, 0.1, 1e-5)",
    dtypes=("float32",),
    tolerance=10,
)
cases(
    "instance_norm",
    [BATCH, CHANNELS, CHANNELS],
    "F.instance_norm(x)",
    "F.instance_norm(x, weight=y, bias=z)",
    f"F.instance_norm(x, {_ones(3)}, {_ones(3)}, y, z, False)",
    "torch.instance_norm(x, y, z, None, None, True, 0.1, 1e-5, True)",
    "m, v = y.detach().clone(), z.detach().clone()\nF.instance_norm(x, m, v)\nm, v",
    dtypes=("float32",),
    tolerance=10,
)
cases(
    "group_norm",
    [IMAGES, (4,), (4,)],
    "F.group_norm(x, 2)",
    "F.group_norm(x, 4, y, z)",
    "F.group_norm(x, 1, y)",
    "torch.group_norm(x, 2, y, z, 0.1)",
    dtypes=("float32", "bfloat16"),
    tolerance=10,
)
cases(
    "native_group_norm",
    [IMAGES, (4,), (4,)],
    "torch.native_group_norm(x.contiguous(), y, z, 2, 4, 6, 2, 1e-5)",
    dtypes=("float32",),
    tolerance=10,
)
cases(
    "native_layer_norm",
    [BATCH, (5,), (5,)],
    "torch.native_layer_norm(x, (5,), y, z, 1e-5)",
    "torch.native_layer_norm(x, (5,), y, None, 0.1)",
    "torch.native_layer_norm(x, (3, 5), None, None, 0.1)",
    dtypes=("float32",),
    tolerance=10,
)
cases(
    "rms_norm",
    [BATCH, (5,)],
    "F.rms_norm(x, (5,), y)",
    "F.rms_norm(x, (3, 5))",
    "torch.rms_norm(x, (5,), y, 0.1)",
    dtypes=("float32", "float16"),
    tolerance=10,
)
faults(
    "batch_norm",
    [BATCH],
    f"F.batch_norm(x, {_ones(4)}, {_ones(3)})",
    f"F.batch_norm(x, {_ones(3)}, {_ones(4)})",
    f"F.batch_norm(x, {_ones(3)}, {_ones(3)}, {_ones(2)})",
    f"F.batch_norm(x, {_ones(3)}, {_ones(3)}, {_ones(3)}, {_ones(2)})",
    "F.batch_norm(x, None, None)",
    f"F.batch_norm(x, {_ones(3)}, None)",
    f"F.batch_norm(x, {_ones(3)}, None, training=True)",
    f"F.batch_norm(x[0, 0], {_ones(3)}, {_ones(3)})",
    "F.batch_norm(x[:1, :, :1], None, None, training=True)",
    "F.batch_norm(x[:1, :, 0], None, None, training=True)",
    "F.batch_norm(x, None, None, training=True, eps=0.0)",
    f"F.batch_norm(x, {_ones(3)}, {_ones(3)}, eps=-1.0)",
    f"F.batch_norm(x.long(), {_ones(3)}, {_ones(3)})",
    f"F.batch_norm(x.float(), {_ones(3)}, {_ones(3)})",
    f"F.batch_norm(x, {_ones(3)}.float(), {_ones(3)}.float())",
    f"F.batch_norm(x, {_ones(3)}.requires_grad_(), {_ones(3)}, training=True)",
    f"torch.batch_norm(x, None, None, {_ones(3)}, {_ones(3)}, True, None, 1e-5, True)",
)
faults(
    "instance_norm",
    [BATCH],
    "F.instance_norm(x[:, :, :1])",
    "F.instance_norm(x, use_input_stats=False)",
    f"F.instance_norm(x, weight={_ones(2)})",
    f"F.instance_norm(x, {_ones(2)}, {_ones(3)})",
)
faults(
    "group_norm",
    [BATCH],
    "F.group_norm(x, 2)",
    f"F.group_norm(x, 3, {_ones(2)})",
    f"F.group_norm(x, 3, {_ones(3)}, {_ones((3, 1))})",
    "F.group_norm(x[:1, :, 0], 3)",
    "F.group_norm(x[0, 0], 3)",
    "F.group_norm(x, 0)",
    "F.group_norm(x.long(), 3)",
)
faults(
    "layer_norm",
    [BATCH],
    f"F.layer_norm(x, (5,), {_ones(4)})",
    f"F.layer_norm(x, (5,), {_ones(5)}, {_ones(4)})",
    "F.layer_norm(x.long(), (5,))",
    f"F.layer_norm(x, (5,), {_ones(5)}.float())",
)
faults(
    "rms_norm",
    [BATCH],
    "F.rms_norm(x, (4,))",
    f"F.rms_norm(x, (5,), {_ones(4)})",
    "F.rms_norm(x, ())",
    "F.rms_norm(x.long(), (5,))",
)
cases(
    "local_response_norm",
    [IMAGES],
    "F.local_response_norm(x, 3)",
    "F.local_response_norm(x[0], 2, 0.1, 0.5, 2.0)",
    dtypes=("float32",),
    tolerance=10,
    strided=False,
)
faults("local_response_norm", [IMAGES], "F.local_response_norm(x[0, 0], 2)")
