"""Convolutions channel by channel by compiled kernels, in several threads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from gradscope.runtime.core.kernels.support import Array
from gradscope.runtime.core.kernels.windows.windows import Windows
from gradscope.runtime.fast.threads.spread import spread
from gradscope.runtime.fast.windows import fast_depthwise

COST: Final = 0.15
"""Nanoseconds for one product where every output channel sees one channel."""


def each_channel(way: str, arrays: Sequence[Array], sizes: Any, many: int, w: Windows) -> None:
    """Let a kernel fill the last of three arrays; each channel has `many` of the output's."""
    flat = [np.ascontiguousarray(each).reshape(-1) for each in arrays]
    framed = w.step_by_one
    kernel = getattr(fast_depthwise, f"{'framed' if framed else 'each_channel'}{way}")
    rest = (w.padding, w.dilation) if framed else (w.stride, w.padding, w.dilation)
    count, together = sizes[0] * sizes[1], 1
    if way == "_to_weight":  # which is a sum over all images
        count, together = sizes[1], sizes[0]
    spread(
        lambda first, last: kernel(*flat, sizes, many, w.kernel, w.out, *rest, (first, last)),
        count,
        together * many * w.taps * w.count * COST,
    )
