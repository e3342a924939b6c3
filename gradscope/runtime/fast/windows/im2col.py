"""Windows as columns by compiled kernels, in several threads. Plain twins: core/kernels."""

from __future__ import annotations

from typing import Final

from gradscope.runtime.core.kernels.support import Array
from gradscope.runtime.core.kernels.windows.windows import WindowBlock, Windows
from gradscope.runtime.fast.threads.spread import spread
from gradscope.runtime.fast.windows import fast_convolution

COST: Final = 0.4
"""Nanoseconds per number of a column."""


def im2col(x: Array, out: Array, w: Windows, block: WindowBlock) -> None:
    """Write what the windows of a block see to `out`."""
    _by_channels(False, x, out, w, block)


def col2im(made: Array, x: Array, w: Windows, block: WindowBlock) -> None:
    """Add each column to its window of `x`."""
    _by_channels(True, x, made, w, block)


def _by_channels(back: bool, x: Array, columns: Array, w: Windows, block: WindowBlock) -> None:
    """Call the kernel for a block's columns and all channels."""
    over = (w.kernel, w.out, w.stride, w.padding, w.dilation)
    args = (back, x.reshape(-1), columns.reshape(-1), x.shape, over, block.lines)
    of_channel = len(x) * w.taps * (block.lines[1] - block.lines[0]) * w.out[2]
    kernel = fast_convolution.columns_of
    spread(lambda first, last: kernel(*args, (first, last)), x.shape[1], of_channel * COST)
