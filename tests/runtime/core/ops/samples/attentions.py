"""Samples of attention, in the one operation PyTorch has on the CPU and in its parts."""

from __future__ import annotations

import numpy as np

from tests.runtime.core.ops.written import cases, faults
from tests.runtime.oracle import Fixed

HEADS = (2, 2, 5, 4)
THREE = [HEADS, HEADS, HEADS]
_attention = "F.scaled_dot_product_attention({})".format
SEEN = Fixed(np.tri(5, 5, dtype=bool))
HIDDEN = Fixed(np.tri(5, 5, -2, dtype=bool))

cases(
    "scaled_dot_product_attention",
    THREE,
    _attention("x, y, z"),
    _attention("x, y, z, is_causal=True"),
    _attention("x, y, z, scale=0.3"),
    _attention("x, y[:, :, :3], z[:, :, :3], is_causal=True"),
    _attention("x[:, :, :2], y, z, is_causal=True"),
    _attention("x, y, z, attn_mask=y.detach()[0, 0, :, :1] * z.detach()[0, 0, :, 0]"),
    _attention("x.transpose(1, 2), y.transpose(1, 2), z.transpose(1, 2)"),
    _attention("x, y[:, :1], z[:, :1], enable_gqa=True"),
    dtypes=("float32", "bfloat16"),
    tolerance=10,
    order=1,
    strided=False,
)
cases(
    "scaled_dot_product_attention",
    [*THREE, SEEN],
    _attention("x, y, z, attn_mask=u"),
    _attention("x, y, z, attn_mask=u[None, None]"),
    _attention("x, y, z, u, is_causal=True"),
    dtypes=("float32",),
    tolerance=10,
    order=1,
    strided=False,
)
cases(
    "scaled_dot_product_attention",
    [*THREE, HIDDEN],
    _attention("x, y, z, attn_mask=u"),
    dtypes=("float32",),
    tolerance=10,
    order=1,
    strided=False,
)
cases(
    "scaled_dot_product_attention",
    [*THREE, (5, 5)],
    _attention("x, y, z, attn_mask=u"),
    _attention("x[0], y[0], z[0]"),
    _attention("x[0, 0], y[0, 0], z[0, 0], is_causal=True"),
    _attention("x[0], y[0], z[0], u.detach()"),
    _attention("x[0], y[0], z[0], scale=-0.3"),
    _attention("x, y, z[:, :, :, :3]"),
    _attention("x, y[:1], z[:1]"),
    _attention("x[0], y[0, :1], z[0, :1], enable_gqa=True"),
    "torch.manual_seed(0)\n" + _attention("x, y, z, dropout_p=0.5"),
    _attention("x[:, :, :0], y, z"),
    dtypes=("float32",),
    tolerance=10,
    strided=False,
)
cases(
    "scaled_dot_product_attention",
    [*THREE, HIDDEN],
    _attention("x[0], y[0], z[0], attn_mask=u"),
    dtypes=("float32",),
    tolerance=10,
    strided=False,
)
cases("_safe_softmax", [(3, 4)], "torch._safe_softmax(x, -1)", "torch._safe_softmax(x, 0)")
faults(
    "scaled_dot_product_attention",
    [*THREE, (5, 5)],
    _attention("x, y.float(), z"),
    _attention("x[0, 0, 0], y[0, 0, 0], z[0, 0, 0]"),
    _attention("x, y, z, attn_mask=u.int()"),
    _attention("x, y, z, attn_mask=u[:3]"),
    _attention("x[0], y[0], z[0], u, is_causal=True"),
    _attention("x, y, z, dropout_p=1.5"),
    _attention("x[:, :1].expand(2, 5, 5, 4), y, z, enable_gqa=True"),
    _attention("x, y[:, :, :, :3], z"),
    "torch.autograd.grad(torch.autograd.grad("
    + _attention("x, y, z")
    + ".sum(), x, create_graph=True)[0].sum(), x)",
)
_heads = "F.multi_head_attention_forward(x, x, x, 4, 2, y, None, None, None, False, 0.0, z, None{})"
cases(
    "multi_head_attention_forward",
    [(5, 3, 4), (12, 4), (4, 4)],
    _heads.format(""),
    _heads.format(", need_weights=False"),
    _heads.format(", static_k=x.detach().reshape(6, 5, 2), static_v=x.detach().reshape(6, 5, 2)"),
    dtypes=("float32",),
    tolerance=10,
    order=1,
    strided=False,
)
