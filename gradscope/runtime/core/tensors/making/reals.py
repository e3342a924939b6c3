"""Conversion of complex numbers to real ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradscope.runtime.core.state.warned import warn_once


def fitting(array: Any, dtype: np.dtype[Any]) -> Any:
    """The array itself; or its real parts, with a warning once, if the dtype is real.

    Doubles are converted to float16 by way of float32: rounded twice, as in PyTorch.
    """
    if array.dtype.char == "d" and dtype.char == "e":
        return array.astype(np.float32)
    if array.dtype.kind != "c" or dtype.kind in "cb":
        return array
    warn_once("Casting complex values to real discards the imaginary part")
    return array.real
