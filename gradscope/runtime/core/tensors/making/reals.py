"""What is left of complex numbers where only real ones have room."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradscope.runtime.core.state.warned import warn_once


def fitting(array: Any, dtype: np.dtype[Any]) -> Any:
    """The array itself; or its real parts, and once a warning, where the dtype has no others.

    Doubles become float32 on their way to float16: they are rounded twice, as PyTorch does.
    """
    if array.dtype.char == "d" and dtype.char == "e":
        return array.astype(np.float32)
    if array.dtype.kind != "c" or dtype.kind in "cb":
        return array
    warn_once("Casting complex values to real discards the imaginary part")
    return array.real
