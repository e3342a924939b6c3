"""Resizing of images: nearest, or weighted sums of neighbours, 1d to 3d."""

from __future__ import annotations

import numpy as np

from gradscope.runtime.core.calls.declare import INTERNAL, LINEAR, family, op, w
from gradscope.runtime.core.errors.dtypes import unknown_dtype
from gradscope.runtime.core.kernels.support import HALVES
from gradscope.runtime.core.kernels.windows import resample, taps
from gradscope.runtime.core.ops.in_formulas import handed_on, named
from gradscope.runtime.core.rows.traits import AS_CHANNELS
from gradscope.runtime.core.tensors.dims import text

SINGLE, DOUBLE = np.dtype(np.float32), np.dtype(np.float64)
SCALES = {1: "scales?", 2: "scales_h? scales_w?", 3: "scales_d? scales_h? scales_w?"}
MODES = {
    "upsample_nearest1d": (1, "nearest", "UpsampleNearest1D"),
    "upsample_nearest2d": (2, "nearest", "UpsampleNearest2D"),
    "upsample_nearest3d": (3, "nearest", "UpsampleNearest3D"),
    "_upsample_nearest_exact1d": (1, "exact", "UpsampleNearestExact1D"),
    "_upsample_nearest_exact2d": (2, "exact", "UpsampleNearestExact2D"),
    "_upsample_nearest_exact3d": (3, "exact", "UpsampleNearestExact3D"),
    "upsample_linear1d": (1, "linear", "UpsampleLinear1D"),
    "upsample_bilinear2d": (2, "linear", "UpsampleBilinear2D"),
    "upsample_trilinear3d": (3, "linear", "UpsampleTrilinear3D"),
    "upsample_bicubic2d": (2, "cubic", "UpsampleBicubic2D"),
    "_upsample_bilinear2d_aa": (2, "bilinear", "UpsampleBilinear2DAa"),
    "_upsample_bicubic2d_aa": (2, "bicubic", "UpsampleBicubic2DAa"),
    "_upsample_lanczos2d_aa": (2, "lanczos", "UpsampleLanczos2DAa"),
}
"""For each operation its dims, its interpolation, and the name of its nodes."""

UNKNOWN_TO = {
    ("nearest", 1): "compute_indices_weights_nearest",
    ("nearest", 2): "upsample_nearest2d_channels_last",
    ("nearest", 3): "compute_indices_weights_nearest",
    ("exact", 1): "compute_indices_weights_nearest",
    ("exact", 2): "upsample_nearest2d_channels_last",
    ("exact", 3): "compute_indices_weights_nearest",
    ("linear", 1): "compute_indices_weights_linear",
    ("linear", 2): "upsample_bilinear2d_channels_last",
    ("linear", 3): "compute_indices_weights_linear",
    ("cubic", 2): "compute_indices_weights_cubic",
    ("bilinear", 2): "compute_index_ranges_weights",
    ("bicubic", 2): "compute_index_ranges_weights",
    ("lanczos", 2): "compute_index_ranges_weights",
}
"""The kernel that PyTorch's error names for an unsupported dtype."""

BYTES = {"nearest": (1, 2, 3), "exact": (1, 2, 3), "linear": (2,), "cubic": (2,)}
BYTES |= {"bilinear": (2,), "bicubic": (2,), "lanczos": (2,)}
"""The numbers of dims for which uint8 is supported."""


def _table(how, size, out, align, scale, kind, back):
    if how in ("nearest", "exact"):
        return taps.nearest(size, out, scale, how == "exact", back=back)
    if how == "linear":
        return taps.linear(size, out, scale, align, kind, back=back)
    if how == "cubic":
        return taps.cubic(size, out, scale, align, kind, back=back)
    return taps.smoothed(how, size, out, scale, align, kind, back=back)


def _tables(how, sizes, outs, rest, kind, *, back=False):
    """One table for each dim; `rest`: align_corners if there is one, and the scales."""
    scales = rest[-len(sizes) :]
    align = bool(rest[0]) if len(rest) > len(sizes) else False
    given = zip(sizes, outs, scales, strict=True)
    if how == "linear" and kind in HALVES and len(sizes) != 2 and not back:
        return [taps.linear(*one, align, SINGLE, kept_in=kind) for one in given]
    kind = DOUBLE if kind == DOUBLE else SINGLE
    return [_table(how, size, out, align, scale, kind, back) for size, out, scale in given]


def _check(shape, outs, count):
    if len(outs) != count:
        raise RuntimeError(
            f"It is expected output_size equals to {count}, but got size {len(outs)}"
        )
    if len(shape) != count + 2:
        raise RuntimeError(
            f"It is expected input_size equals to {count + 2}, but got size {len(shape)}"
        )
    sizes = shape[2:]
    if min(*sizes, *outs) <= 0:
        given, made = (
            ", ".join(f"{axis}: {n}" for axis, n in zip("DHW"[3 - count :], numbers, strict=True))
            for numbers in (sizes, outs)
        )
        between = " and " if count == 1 else " "
        raise RuntimeError(
            "Input and output sizes should be greater than 0, but got "
            f"input ({given}){between}output ({made})"
        )
    if 0 in shape[1:]:
        raise RuntimeError(
            f"Non-empty {count + 2}D data tensor expected but got a tensor with sizes {text(shape)}"
        )


def _resized(x, how, count, outs, rest):
    if x.dtype.kind not in "fV" and not (x.dtype == np.uint8 and count in BYTES[how]):
        raise unknown_dtype(UNKNOWN_TO[how, count], x)
    if how in taps.FILTERS and x.dtype in HALVES:
        raise unknown_dtype(UNKNOWN_TO[how, count], x)
    if x.dtype == np.uint8 and how not in ("nearest", "exact"):
        return resample.resample_bytes(x, _tables(how, x.shape[2:], outs, rest, DOUBLE))
    tables = _tables(how, x.shape[2:], outs, rest, x.dtype)
    return resample.resample(x, tables)


def _rows(name, count, how, title):
    back = f"{name}_backward"
    rest = SCALES[count] if how in ("nearest", "exact") else f"align_corners {SCALES[count]}"

    def forward(self, output_size, *rest):
        _check(self.shape, output_size, count)
        return _resized(self, how, count, output_size, rest)

    def backward(grad_output, output_size, input_size, *rest):
        kind = grad_output.dtype
        tables = _tables(how, input_size[2:], output_size, rest, kind, back=True)
        return resample.resample(grad_output, tables)

    def to_self(grad, output_size, self_shape, *rest):
        return getattr(w, back)(grad, output_size, tuple(self_shape), *rest)

    return {
        name: op(
            f"{title}Backward0",
            named(forward, f"self output_size {rest}"),
            LINEAR,
            AS_CHANNELS,
            INTERNAL,
            self=named(to_self, f"grad output_size self_shape {rest}"),
        ),
        back: op(
            f"{title}BackwardBackward0",
            named(backward, f"grad_output output_size input_size {rest}"),
            LINEAR,
            INTERNAL,
            grad_output=handed_on(name, f"grad output_size {rest}"),
        ),
    }


ROWS = {
    name: row
    for called, (count, how, title) in MODES.items()
    for name, row in _rows(called, count, how, title).items()
}
globals().update(ROWS)
family(globals())
