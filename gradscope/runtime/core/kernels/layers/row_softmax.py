"""Softmax and similar functions along the last dim, for large float32 arrays.

The plain twins, for all other arrays, are in ops/layers/softmax.py.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from gradscope.runtime.core.kernels.support import Array, Family

FLOAT32: Final = np.dtype(np.float32)
FAST: Final = Family("layers.row_softmax", few=1 << 13)


def wins(x: Array, dim: int) -> bool:
    """Whether the compiled kernels are faster for rows along this dim."""
    if x.dtype is not FLOAT32 or not FAST.wins(x.size) or dim not in (-1, x.ndim - 1):
        return False
    return x.shape[-1] > 1 and bool(x.flags.c_contiguous)
