"""The memory of a tensor of the runtime."""

from __future__ import annotations

import ctypes
from typing import Any

_view = ctypes.pythonapi.PyMemoryView_FromMemory
_view.argtypes, _view.restype = (ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int), ctypes.py_object
READ_ONLY = 0x100


def memory(tensor: Any) -> memoryview | None:
    """The bytes from a tensor's first element to its last; None: not readable."""
    if tensor.device.type != "cpu" or tensor.is_sparse or tensor.is_conj() or tensor.is_neg():
        return None
    shape, at = tensor.shape, tensor.data_ptr()
    if not at or 0 in shape:
        return memoryview(b"")
    last = sum((n - 1) * step for n, step in zip(shape, tensor.stride(), strict=True))
    found: memoryview = _view(at, (last + 1) * tensor.element_size(), READ_ONLY)
    return found


def address(tensor: Any) -> int:
    """The address of its first element; 0: it has no memory."""
    return int(tensor.data_ptr())
