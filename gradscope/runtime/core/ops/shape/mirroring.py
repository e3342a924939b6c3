"""Padding by reflection (reflection_pad) or replication (replication_pad)."""

from __future__ import annotations

from gradscope.runtime.core.calls.declare import INTERNAL, LINEAR, family, op, w
from gradscope.runtime.core.errors.dtypes import unknown_dtype
from gradscope.runtime.core.kernels.windows import resample, taps
from gradscope.runtime.core.ops.index.gathering import zeros_of
from gradscope.runtime.core.ops.windows.pool_arguments import ints
from gradscope.runtime.core.rows.traits import AS_CHANNELS
from gradscope.runtime.core.tensors.dims import text

TABLES = {"reflection": taps.mirrored, "replication": taps.repeated}
TOO_SMALL = {
    ("reflection", 2): "H: {0}, W: {1}", ("reflection", 3): "D: {0} H: {1}, W: {2}",
    ("replication", 2): "H: {0}, W: {1} ", ("replication", 3): "D: {0} H: {1}, W: {2}",
}  # fmt: skip
"""PyTorch's format of the sizes of an input that is too small."""


def _pairs(padding):
    """(before, after) for each of the last dims, which `padding` lists last first."""
    return list(zip(padding[::2], padding[1::2], strict=True))[::-1]


def _check(shape, padding, kind, dims):
    if len(shape) not in (dims + 1, dims + 2) or 0 in shape[len(shape) - dims - 1 :]:
        raise RuntimeError(
            f"Expected {dims + 1}D or {dims + 2}D (batch mode) tensor with possibly 0 batch size "
            f"and other non-zero dimensions for input, but got: {text(shape)}"
        )
    sizes, pairs = shape[len(shape) - dims :], _pairs(padding)
    if kind == "reflection":
        for place, (size, pair) in reversed(list(enumerate(zip(sizes, pairs, strict=True)))):
            if max(pair) >= size:
                raise RuntimeError(
                    f"Argument #{4 + 2 * (dims - 1 - place)}: Padding size should be less than the "
                    f"corresponding input dimension, but got: padding ({pair[0]}, {pair[1]}) at "
                    f"dimension {len(shape) - dims + place} of input {text(shape)}"
                )
    made = [size + a + b for size, (a, b) in zip(sizes, pairs, strict=True)]
    # PyTorch allows one empty dim if another is not.
    if max(made) < 1 or min(made) < 0:
        given = TOO_SMALL.get((kind, dims), "W: {0}").format(*sizes)
        axes = "DHW"[3 - dims :]
        shown = " ".join(f"{axis}: {size}" for axis, size in zip(axes, made, strict=True))
        raise RuntimeError(f"input ({given}) is too small. Calculated output {shown}")


def _tables(shape, padding, kind, *, back=False):
    pairs = _pairs(padding)
    sizes = shape[len(shape) - len(pairs) :]
    return [
        TABLES[kind](size, before, after, back=back)
        for size, (before, after) in zip(sizes, pairs, strict=True)
    ]


def _rows(kind, dims):
    """The row for one kind and number of dims, and that of its gradient."""
    title, name = f"{kind.capitalize()}Pad{dims}D", f"{kind}_pad{dims}d"
    back_name = f"{name}_backward"

    def forward(self, padding):
        padding = ints(padding, 2 * dims, name, "padding", 2)
        _check(self.shape, padding, kind, dims)
        if self.dtype.kind == "b":
            raise unknown_dtype(name, self)
        return resample.resample(self, _tables(self.shape, padding, kind))

    def backward(grad_output, self, padding):
        padding = ints(padding, 2 * dims, name, "padding", 2)
        return resample.resample(grad_output, _tables(self.shape, padding, kind, back=True))

    return {
        name: op(
            f"{title}Backward0",
            forward,
            LINEAR,
            AS_CHANNELS,
            self=lambda grad, self, padding: getattr(w, back_name)(grad, self, padding),
        ),
        back_name: op(
            f"{title}BackwardBackward0",
            backward,
            LINEAR,
            INTERNAL,
            grad_output=lambda grad, padding: getattr(w, name)(grad, padding),
            self=lambda grad, self_shape: zeros_of(grad, self_shape),
        ),
    }


ROWS = {
    name: row for kind in TABLES for dims in (1, 2, 3) for name, row in _rows(kind, dims).items()
}
globals().update(ROWS)
family(globals())
