"""NumPy arrays whose memory a tensor uses."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradscope.runtime.core.state.warned import warn_once


def check_strides(array: Any) -> None:
    if any(step < 0 for step in array.strides):
        raise ValueError(
            "At least one stride in the given numpy array is negative, and tensors with negative "
            "strides are not currently supported. (You can probably work around this by making a "
            "copy of your array  with array.copy().) "
        )


class _Lender:
    """An array whose memory is presented as writable."""

    def __init__(self, array: Any) -> None:
        interface = dict(array.__array_interface__)
        self.__array_interface__ = {**interface, "data": (interface["data"][0], False)}
        self._array = array


def lent(array: Any) -> Any:
    """The memory of a read-only array, writable for a tensor, as in PyTorch."""
    warn_once(
        "The given NumPy array is not writable, and PyTorch does not support non-writable tensors. "
        "This means writing to this tensor will result in undefined behavior. You may want to copy "
        "the array to protect its data or make it writable before converting it to a tensor. This "
        "type of warning will be suppressed for the rest of this program."
    )
    return np.asarray(_Lender(array))
