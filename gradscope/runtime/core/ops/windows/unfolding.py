"""F.unfold and F.fold: windows of images as columns, and back."""

from __future__ import annotations

from functools import cache
from math import prod

from gradscope.runtime.core.calls.declare import INTERNAL, LINEAR, family, op, refuses, w
from gradscope.runtime.core.kernels.windows.windows import folded, unfolded, windows
from gradscope.runtime.core.rows.offered import nn_function
from gradscope.runtime.core.tensors.dims import text


def _blocks(size, kernel_size, dilation, padding, stride):
    """The number of windows along each side."""
    return tuple(
        (n + 2 * p - d * (k - 1) - 1) // s + 1
        for n, k, d, p, s in zip(size, kernel_size, dilation, padding, stride, strict=True)
    )


def _tuple(pair):
    return f"({pair[0]}, {pair[1]})"


def _check_options(kernel_size, dilation, padding, stride):
    for name, short, pair, least in (
        ("kernel size", "kernel", kernel_size, 1),
        ("dilation", "dilation", dilation, 1),
        ("padding", "pad", padding, 0),
        ("stride", "stride", stride, 1),
    ):
        if min(pair) < least:
            wanted = "greater than zero" if least else "non-negative"
            raise RuntimeError(
                f"{name} should be {wanted}, but got {short}_height: {pair[0]} "
                f"{short}_width: {pair[1]}"
            )


@cache
def _windows_of(shape, kernel_size, dilation, padding, stride):
    """The windows over the images of an input of this shape."""
    _check_options(kernel_size, dilation, padding, stride)
    if len(shape) not in (3, 4) or 0 in shape[-3:]:
        raise RuntimeError(
            "Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero "
            f"dimensions for input, but got: {text(shape)}"
        )
    size = shape[-2:]
    blocks = _blocks(size, kernel_size, dilation, padding, stride)
    if min(blocks) < 1:
        raise RuntimeError(
            f"Given input with spatial size {_tuple(size)}, kernel_size={_tuple(kernel_size)}, "
            f"dilation={_tuple(dilation)}, padding={_tuple(padding)}, calculated shape of the "
            f"array of sliding blocks as {_tuple(blocks)}, but its components must be at least one."
        )
    return windows(size, kernel_size, blocks, stride, padding, dilation)


@cache
def _windows_into(shape, output_size, kernel_size, dilation, padding, stride):
    """The windows of columns of this shape."""
    _check_options(kernel_size, dilation, padding, stride)
    rows, columns = shape[-2:] if len(shape) > 1 else (0, 0)
    if len(shape) not in (2, 3) or not (rows and columns):
        raise RuntimeError(
            "Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and "
            f"non-zero dimensions for input, but got: {text(shape)}"
        )
    dim = len(shape) - 2
    if rows % prod(kernel_size):
        raise RuntimeError(
            f"Expected size of input's dimension {dim} to be divisible by the product of "
            f"kernel_size, but got input.size({dim})={rows} and kernel_size={_tuple(kernel_size)}."
        )
    blocks = _blocks(output_size, kernel_size, dilation, padding, stride)
    if prod(blocks) != columns:
        raise RuntimeError(
            f"Given output_size={_tuple(output_size)}, kernel_size={_tuple(kernel_size)}, "
            f"dilation={_tuple(dilation)}, padding={_tuple(padding)}, stride={_tuple(stride)}, "
            f"expected size of input's dimension {dim + 1} to match the calculated number of "
            f"sliding blocks {blocks[0]} * {blocks[1]} = {prod(blocks)}, but got "
            f"input.size({dim + 1})={columns}."
        )
    if min(blocks) < 1:
        raise RuntimeError(
            f"Given output_size={_tuple(output_size)}, kernel_size={_tuple(kernel_size)}, "
            f"dilation={_tuple(dilation)}, padding={_tuple(padding)}, stride={_tuple(stride)}, "
            f"calculated shape of the array of sliding blocks as {_tuple(blocks)}, which is too "
            "small (non-positive)"
        )
    return windows(output_size, kernel_size, blocks, stride, padding, dilation)


def _unfold(
    self,
    kernel_size,
    dilation,
    padding,
    stride,
    self_sym_argsize_minus_1=0,
    self_sym_argsize_minus_2=0,
):
    over = _windows_of(self.shape, kernel_size, dilation, padding, stride)
    images = self.reshape(-1, *self.shape[-3:-2], *over.size)
    made = unfolded(images, over)
    return made if self.ndim == 4 else made[0]


def _fold(self, output_size, kernel_size, dilation, padding, stride):
    over = _windows_into(self.shape, output_size, kernel_size, dilation, padding, stride)
    channels = self.shape[-2] // over.taps
    made = folded(self.reshape(-1, *self.shape[-2:]), over, channels)
    return made.reshape(*self.shape[:-2], channels, *output_size)


def _fold_grad(
    grad,
    kernel_size,
    dilation,
    padding,
    stride,
    self_sym_argsize_minus_1,
    self_sym_argsize_minus_2,
):
    size = (self_sym_argsize_minus_2, self_sym_argsize_minus_1)
    return w.col2im(grad, size, kernel_size, dilation, padding, stride)


im2col = op(
    "Im2ColBackward0",
    _unfold,
    LINEAR,
    INTERNAL,
    refuses("iu", "\"im2col_out_cpu\" not implemented for '{kind}'"),
    self=_fold_grad,
)
col2im = op(
    "Col2ImBackward0",
    _fold,
    LINEAR,
    INTERNAL,
    refuses("iu", "\"col2im_out_cpu\" not implemented for '{kind}'"),
    self=lambda grad, kernel_size, dilation, padding, stride: _unfolded(
        grad, kernel_size, dilation, padding, stride
    ),
)
family(globals())


def _unfolded(input, kernel_size, dilation, padding, stride):
    height, width = input.shape[-2:] if input.ndim > 1 else (0, 0)
    return w.im2col(input, kernel_size, dilation, padding, stride, width, height)


def _pair(value, name):
    pair = (value, value) if isinstance(value, int) else tuple(value)
    if len(pair) != 2:
        raise RuntimeError(f"It is expected {name} equals to 2, but got size {len(pair)}")
    return pair


@nn_function
def unfold(input, kernel_size, dilation=1, padding=0, stride=1):
    """Extract sliding windows of images as columns."""
    if input.dim() < 3:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [-{input.dim()}, "
            f"{input.dim() - 1}], but got 2)"
        )
    return _unfolded(
        input,
        _pair(kernel_size, "kernel_size"),
        _pair(dilation, "dilation"),
        _pair(padding, "padding"),
        _pair(stride, "stride"),
    )


@nn_function
def fold(input, output_size, kernel_size, dilation=1, padding=0, stride=1):
    """Combine columns into images. Values of overlapping windows are added."""
    return col2im(
        input,
        _pair(output_size, "output_size"),
        _pair(kernel_size, "kernel_size"),
        _pair(dilation, "dilation"),
        _pair(padding, "padding"),
        _pair(stride, "stride"),
    )
