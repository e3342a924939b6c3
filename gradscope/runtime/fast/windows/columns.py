"""Windows as columns by compiled kernels, in several threads; NumPy's way is in core/kernels."""

from __future__ import annotations

from typing import Any, Final

from gradscope.runtime.core.kernels.support import Array
from gradscope.runtime.core.kernels.windows.windows import Block, Sizes, Windows
from gradscope.runtime.fast.threads.spread import spread
from gradscope.runtime.fast.windows import fast_convolution

COST: Final = 0.4
"""Nanoseconds for one number of a column."""


def im2col(x: Array, out: Array, w: Windows, block: Block) -> None:
    """Write what the windows of a block see into `out`."""
    _by_channels(fast_convolution.im2col, (x.reshape(-1), out.reshape(-1)), x.shape, w, block)


def col2im(made: Array, x: Array, w: Windows, block: Block) -> None:
    """Add each column to what its window sees of `x`."""
    _by_channels(fast_convolution.col2im, (made.reshape(-1), x.reshape(-1)), x.shape, w, block)


def _by_channels(
    kernel: Any, arrays: tuple[Array, Array], sizes: Sizes, w: Windows, block: Block
) -> None:
    """Call a kernel for a block's columns and all channels."""
    rest = (sizes, w.kernel, w.out, w.stride, w.padding, w.dilation, block.lines)
    of_channel = sizes[0] * w.taps * (block.lines[1] - block.lines[0]) * w.out[2]
    spread(lambda first, last: kernel(*arrays, *rest, (first, last)), sizes[1], of_channel * COST)
