"""The values of a tensor as an array, for callers that may take some time.

They are read from memory: no operation is called, so nothing is recorded.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import torch

from gradscope.watch.in_place.sharded import local_part
from gradscope.watch.unseen import unseen
from gradscope.watch.values.reachable import memory

DTYPES: dict[Any, Any] = {
    torch.float16: np.float16, torch.float32: np.float32, torch.float64: np.float64,
    torch.complex64: np.complex64, torch.complex128: np.complex128, torch.bfloat16: np.uint16,
}  # fmt: skip
"""Dtypes that can hold NaN or Inf, and the NumPy dtypes of their memory."""


def numbers(tensor: Any, others: Mapping[Any, Any] = MappingProxyType({})) -> Any:
    """The values of a floating-point tensor on the CPU; None: it is another, or not readable.

    Of a DTensor: those of the part that this rank holds. `others`: further dtypes, with those of
    NumPy.
    """
    tensor = local_part(tensor)
    with unseen():
        dtype = DTYPES.get(tensor.dtype) or others.get(tensor.dtype)
        there = None if dtype is None else memory(tensor)
        if there is None:
            return None
        shape, stride = tensor.shape, tensor.stride()
    if not there:
        return np.zeros(shape, np.float32)
    size = np.dtype(dtype).itemsize
    flat = np.frombuffer(there, dtype)
    found = np.lib.stride_tricks.as_strided(flat, shape, [step * size for step in stride])
    if tensor.dtype is torch.bfloat16:
        return (found.astype(np.uint32) << 16).view(np.float32)
    return found
