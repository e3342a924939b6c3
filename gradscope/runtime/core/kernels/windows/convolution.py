"""Convolution and its gradients: windows as columns of a matrix, and one product for all.

For large images, tiles work without columns (fast/windows/direct.py).

Images are (images, channels, *size), weights (out channels, channels of one group, *kernel). Each
function takes a description of the windows (see windows.py). A transposed convolution is the
gradient of an ordinary one, and vice versa, so the same three functions suffice.
"""

from __future__ import annotations

from math import prod
from typing import Final

import numpy as np

from gradscope.runtime.core.kernels.linalg.products import MANY
from gradscope.runtime.core.kernels.support import BFLOAT16, HALVES, Array, kernels_of
from gradscope.runtime.core.kernels.windows.windows import (
    WindowBlock,
    Windows,
    add_columns,
    blocks,
    columns,
    folded,
    is_large,
)

TOGETHER: Final = 192
"""Images with fewer windows are multiplied side by side."""
FEWEST: Final = 8
"""Rows of a tile: with fewer output channels too much of it would be wasted."""
by_tiles: Final = kernels_of("windows.direct")
depthwise: Final = kernels_of("windows.depthwise")


def forward(x: Array, weight: Array, w: Windows, groups: int) -> Array:
    """Return the convolution of the images with the weight."""
    if x.dtype in HALVES:
        wide = forward(x.astype(np.float32), weight.astype(np.float32), w, groups)
        return wide.astype(x.dtype)
    x = _images(x, w)
    if _is_channel_by_channel(x, weight, w, groups):
        made = np.zeros((len(x), len(weight), *w.out), x.dtype)
        depthwise().each_channel("to_output", made, x, weight, w)
        return made
    if _tiles_pay(x, w, len(weight) // groups):
        return by_tiles().forward(x, weight, w, groups)
    rows = _rows(weight, groups)
    made = np.empty((len(x), groups, rows.shape[1], w.count), x.dtype)
    if not (made.size and rows.size):
        return np.zeros((len(x), len(weight), *w.out), x.dtype)
    if w.are_elements and (w.count >= TOGETHER or len(x) == 1):
        np.matmul(rows, x.reshape(len(x), groups, x.shape[1] // groups, w.count), out=made)
        return made.reshape(len(x), len(weight), *w.out)
    for block in blocks(w, len(x), x.shape[1] * w.taps, TOGETHER):
        seen = _seen(x, w, block, groups)
        if block.is_of_one:
            np.matmul(rows, seen, out=made[block.images.start, :, :, block.places])
        else:
            _put_apart(made[block.images], np.matmul(rows, seen))
    return made.reshape(len(x), len(weight), *w.out)


def to_input(grad: Array, weight: Array, w: Windows, groups: int) -> Array:
    """Return the gradient of the images."""
    if grad.dtype in HALVES:
        return _halves_to_input(grad, weight, w, groups)
    channels = weight.shape[1] * groups
    made = np.empty((len(grad), channels, *w.size), grad.dtype)
    if _tiles_pay(made, w, weight.shape[1]) and by_tiles().to_input(grad, weight, made, w, groups):
        return made
    made = np.zeros(made.shape, grad.dtype)
    if _is_channel_by_channel(made, weight, w, groups):
        depthwise().each_channel("to_input", grad, made, weight, w)
        return made
    rows = _rows(weight, groups).swapaxes(1, 2)
    grads = np.ascontiguousarray(grad).reshape(len(grad), groups, rows.shape[2], w.count)
    if not (made.size and grads.size):
        return made
    if w.are_elements and (w.count >= TOGETHER or len(grad) == 1):
        np.matmul(rows, grads, out=made.reshape(len(grad), groups, rows.shape[1], w.count))
        return made
    for block in blocks(w, len(grad), channels * w.taps, TOGETHER):
        add_columns(made, w, block, np.matmul(rows, _side_by_side(grads, block)))
    return made


def _halves_to_input(grad: Array, weight: Array, w: Windows, groups: int) -> Array:
    """The same for halves, which PyTorch sums in their own dtype, or in float32 and rounds.

    Its kernel library supports bfloat16, unless windows have gaps; it does not support float16 on
    processors without instructions for it.
    """
    wide, rows = grad.astype(np.float32), weight.astype(np.float32)
    if grad.dtype == BFLOAT16 and max(w.dilation) == 1:
        return to_input(wide, rows, w, groups).astype(grad.dtype)
    rows = _rows(rows, groups).swapaxes(1, 2)
    wide = wide.reshape(len(grad), groups, rows.shape[2], w.count)
    columns = np.matmul(rows, wide).astype(grad.dtype)
    columns = columns.reshape(len(grad), rows.shape[1] * groups, w.count)
    return folded(columns, w, weight.shape[1] * groups)


def to_weight(grad: Array, x: Array, w: Windows, groups: int) -> Array:
    """Return the gradient of the weight."""
    if grad.dtype in HALVES:
        wide = to_weight(grad.astype(np.float32), x.astype(np.float32), w, groups)
        return wide.astype(grad.dtype)
    x = _images(x, w)
    of_group = x.shape[1] // groups
    weight = np.empty((grad.shape[1], of_group, *w.kernel), x.dtype)
    each = _is_channel_by_channel(x, weight, w, groups)
    if not each and _tiles_pay(x, w, len(weight) // groups):
        by_tiles().to_weight(grad, x, weight, w, groups)
        return weight
    weight = np.zeros(weight.shape, x.dtype)
    if each:
        depthwise().each_channel("to_weight", grad, x, weight, w)
        return weight
    grads = np.ascontiguousarray(grad).reshape(len(grad), groups, grad.shape[1] // groups, w.count)
    made = weight.reshape(groups, grad.shape[1] // groups, of_group * w.taps)
    if made.size and grads.size:
        for nr, block in enumerate(blocks(w, len(x), x.shape[1] * w.taps, TOGETHER)):
            seen = _seen(x, w, block, groups).swapaxes(1, 2)
            if nr:
                made += np.matmul(_side_by_side(grads, block), seen)
            else:
                np.matmul(_side_by_side(grads, block), seen, out=made)
    return weight


def to_bias(grad: Array) -> Array:
    """Return the gradient of the bias: the sum over all dims but the channels."""
    wide = grad.astype(np.float32) if grad.dtype in HALVES else grad
    rows = np.ascontiguousarray(wide).reshape(*grad.shape[:2], prod(grad.shape[2:]))
    sums = rows @ np.ones(rows.shape[2], rows.dtype)
    return np.asarray(sums.sum(0, dtype=sums.dtype)).astype(grad.dtype, copy=False)


def _is_channel_by_channel(x: Array, weight: Array, w: Windows, groups: int) -> bool:
    """Whether every output channel sees one channel only, and it is large enough."""
    return groups == x.shape[1] > 1 == weight.shape[1] and is_large(x, w)


def _tiles_pay(x: Array, w: Windows, rows: int) -> bool:
    """Whether tiles pay off, with this number of rows for each group."""
    products = len(x) * x.shape[1] * w.taps * w.count * rows
    flat = w.size[0] == w.kernel[0] == w.out[0] == 1 and w.stride[1] == w.stride[2]
    return flat and rows >= FEWEST and products >= MANY and x.dtype.char in "fd"


def _images(x: Array, w: Windows) -> Array:
    return np.ascontiguousarray(x).reshape(*x.shape[:2], *w.size)


def _rows(weight: Array, groups: int) -> Array:
    """The weight as a matrix for each group."""
    return np.ascontiguousarray(weight).reshape(
        groups, len(weight) // groups, prod(weight.shape[1:])
    )


def _seen(x: Array, w: Windows, block: WindowBlock, groups: int) -> Array:
    """The columns of a block, as a matrix for each group."""
    count = (block.images.stop - block.images.start) * (block.places.stop - block.places.start)
    if w.are_elements:
        part = x[block.images].reshape(-1, x.shape[1], w.count)[:, :, block.places]
        return part.swapaxes(0, 1).reshape(groups, x.shape[1] // groups, count)
    made = np.empty((x.shape[1] * w.taps, count), x.dtype)
    columns(x, w, block, made)
    return made.reshape(groups, made.shape[0] // groups, count)


def _side_by_side(grads: Array, block: WindowBlock) -> Array:
    """The gradients of a block's windows, as a matrix for each group."""
    if block.is_of_one:
        return grads[block.images.start, :, :, block.places]
    part = grads[block.images]
    images, groups, channels, count = part.shape
    return part.transpose(1, 2, 0, 3).reshape(groups, channels, images * count)


def _put_apart(images: Array, made: Array) -> None:
    """Write a matrix with images side by side to the images."""
    count, groups, channels, places = images.shape
    images[...] = made.reshape(groups, channels, count, places).transpose(2, 0, 1, 3)
