"""Depthwise convolutions by compiled kernels, in several threads."""

from __future__ import annotations

from typing import Final

import numpy as np

from gradscope.runtime.core.kernels.support import Array
from gradscope.runtime.core.kernels.windows.windows import Windows
from gradscope.runtime.fast.threads.spread import spread
from gradscope.runtime.fast.windows import fast_depthwise

COST: Final = 0.15
"""Nanoseconds per product in a depthwise convolution."""
WAYS: Final = {
    "to_output": fast_depthwise.TO_OUTPUT,
    "to_input": fast_depthwise.TO_INPUT,
    "to_weight": fast_depthwise.TO_WEIGHT,
}


def each_channel(way: str, out: Array, x: Array, weight: Array, w: Windows) -> None:
    """Fill the array that `way` names (`to_output`, …): outputs, or a gradient."""
    flat = [np.ascontiguousarray(each).reshape(-1) for each in (out, x, weight)]
    kernel = fast_depthwise.framed if w.step_by_one else fast_depthwise.each_channel
    args = (WAYS[way], *flat, x.shape, out.shape[1] // x.shape[1])
    over = (w.kernel, w.out, w.stride, w.padding, w.dilation)
    count, together = len(x) * x.shape[1], 1
    if way == "to_weight":  # a sum over all images
        count, together = x.shape[1], len(x)
    spread(
        lambda first, last: kernel(*args, over, (first, last)),
        count,
        together * (out.shape[1] // x.shape[1]) * w.taps * w.count * COST,
    )
