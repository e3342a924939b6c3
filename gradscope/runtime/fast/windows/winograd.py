"""3×3 convolutions by Winograd's method (see fast_winograd.py): when, and in which parts.

The plain twins use columns, in convolution.py. Infinities may meet in intermediate results that do
not meet in a window. So results that are not finite are refused, and direct.py computes them.
"""

from __future__ import annotations

from functools import partial
from math import isfinite
from typing import Any, Final

import numpy as np

from gradscope.runtime.core.kernels.linalg.products import COST, MANY
from gradscope.runtime.core.kernels.support import Array, kernels_of
from gradscope.runtime.core.kernels.windows.windows import Windows
from gradscope.runtime.fast.threads.spread import spread

FEWEST: Final = (48, 32)
"""Smallest numbers of channels and patches for which the transformation pays off."""
FILLED: Final = 2.5
"""Least number of the four windows of a patch that must exist, on average."""
PATCHES: Final = 512
"""Largest number of patches processed together."""
NUMBERS: Final = 1 << 19
"""Largest number of transformed numbers of patches, and of weights, at a time."""
TOGETHER: Final = 128
"""Patches processed together for the weight gradient."""
PART: Final = 64
"""Smallest number of input channels for a thread."""
ROWS: Final = 32
"""Smallest number of output channels for a thread."""


tiles: Final = kernels_of("windows.fast_winograd")
of_weight: Final = kernels_of("windows.fast_winograd_weight")


def wins(shape: tuple[int, ...], channels: int, w: Windows, groups: int, dtype: Any) -> bool:
    """Whether Winograd's method pays off for images of this shape and this number of channels."""
    plain = groups == 1 and w.kernel == (1, 3, 3) and w.stride == w.dilation == (1, 1, 1)
    if not plain or w.padding[0] or w.size[0] != 1 or max(w.padding) > 2 or dtype.char not in "fd":
        return False
    patches = shape[0] * _patches(w.out[1]) * _patches(w.out[2])
    filled = w.count * shape[0] >= FILLED * patches
    enough = min(shape[1], channels) >= FEWEST[0] and patches >= FEWEST[1]
    return filled and enough and 16 * patches * shape[1] * channels >= MANY


def forward(x: Array, weight: Array, w: Windows) -> Array | None:
    """Return the convolution of the images with the weight; None if it is not finite."""
    made = np.empty((len(x), len(weight), *w.out), x.dtype)
    return made if _convolve(x, weight, made, w.padding[1:], turned=False) else None


def to_input(grad: Array, weight: Array, made: Array, w: Windows) -> bool:
    """Write the gradient of the images, if it is finite."""
    padding = (2 - w.padding[1], 2 - w.padding[2])
    return _convolve(np.ascontiguousarray(grad), weight, made, padding, turned=True)


def to_weight(grad: Array, x: Array, made: Array, w: Windows) -> bool:
    """Write the gradient of the weight, if it is finite."""
    flat = (np.ascontiguousarray(grad).reshape(-1), x.reshape(-1), made.reshape(-1))
    source = (*x.shape[:2], *w.size[1:], w.padding[1:])
    rows, channels = made.shape[:2]
    target, kernel = (rows, *w.out[1:]), of_weight().convolve_to_weight
    cost, sums = 4 * len(x) * w.count * COST, _Sums(kernel, (*flat, source, target, TOGETHER))
    part = PART if channels >= 2 * PART else PART // 2
    if channels >= 2 * part:
        spread(partial(sums.of_columns, (0, rows)), channels, cost * rows, part)
    else:
        spread(partial(sums.of_rows, (0, channels), rows), rows // ROWS, cost * channels * ROWS)
    return sums.are_of_finite(made)


class _Sums:
    """Sums of parts of a result, which show whether anything is not finite."""

    def __init__(self, kernel: Any, args: Any) -> None:
        self.kernel, self.args = kernel, args
        self.sums: list[float] = []

    def of_columns(self, rows: Any, first: int, last: int) -> None:
        """Compute some columns, or lines of patches, in these rows."""
        self.sums.append(self.kernel(*self.args, rows, (first, last)))

    def of_rows(self, some: Any, rows: int, first: int, last: int) -> None:
        """Compute rows in groups; the last group has the rest."""
        end = rows if last == rows // ROWS else last * ROWS
        self.sums.append(self.kernel(*self.args, (first * ROWS, end), some))

    def are_of_finite(self, made: Array) -> bool:
        """Whether all of the result is finite. If a sum overflows, each element is checked."""
        return isfinite(sum(self.sums)) or bool(np.isfinite(made).all())


def _convolve(x: Array, weight: Array, made: Array, padding: Any, *, turned: bool) -> bool:
    count, rows = x.shape[1], made.shape[1]
    patches = max(PART, min(PATCHES, NUMBERS // (16 * count)))
    together = (patches, max(PART, NUMBERS // (16 * count)))
    weight = np.ascontiguousarray(weight)
    flat = (x.reshape(-1), weight.reshape(-1), made.reshape(-1))
    source, target = (count, *x.shape[-2:], padding), (rows, *made.shape[-2:])
    sums = _Sums(tiles().convolve, (*flat, source, target, turned, together))
    lines, wide = len(x) * _patches(made.shape[-2]), _patches(made.shape[-1])
    cost = 16 * wide * count * rows * COST
    if lines * wide >= 4 * PART:
        at_once = _patches(made.shape[-2]) if len(x) > 1 else 1
        spread(partial(sums.of_columns, (0, rows)), lines, cost, at_once)
    else:
        some = partial(sums.of_rows, (0, lines), rows)
        spread(some, rows // ROWS, cost * lines / rows * ROWS)
    return sums.are_of_finite(made)


def _patches(windows: int) -> int:
    return (windows + 1) // 2
