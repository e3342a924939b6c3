"""The numbers of a tensor, for those who ask at leisure.

They are read where they lie: nothing is called that could be seen.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import torch

from gradscope.watch.unseen import unseen

DTYPES: dict[Any, Any] = {
    torch.float16: np.float16, torch.float32: np.float32, torch.float64: np.float64,
    torch.complex64: np.complex64, torch.complex128: np.complex128, torch.bfloat16: np.uint16,
}  # fmt: skip
"""What there is that can be not finite, by what NumPy calls memory of that layout."""


def numbers(tensor: Any) -> Any:
    """What a floating tensor on the CPU holds, as an array; None: it is not one."""
    with unseen():
        dtype = DTYPES.get(tensor.dtype)
        if dtype is None or tensor.layout is not torch.strided or tensor.device.type != "cpu":
            return None
        try:
            shape, stride, at = tensor.shape, tensor.stride(), tensor.data_ptr()
        except RuntimeError:  # one that stands for others, without memory
            return None
    size = np.dtype(dtype).itemsize
    last = sum((many - 1) * step for many, step in zip(shape, stride, strict=True))
    if not at or 0 in shape:
        return np.zeros(shape, np.float32)
    memory = (ctypes.c_byte * ((last + 1) * size)).from_address(at)
    flat = np.frombuffer(memory, dtype)
    found = np.lib.stride_tricks.as_strided(flat, shape, [step * size for step in stride])
    if tensor.dtype is torch.bfloat16:
        return (found.astype(np.uint32) << 16).view(np.float32)
    return found
