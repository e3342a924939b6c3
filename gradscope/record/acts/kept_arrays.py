"""What is in a tensor, kept as bytes: looking at it is no operation, which would be recorded."""

from __future__ import annotations

import ctypes
from typing import Any, NamedTuple

MOST = 1 << 20
"""So many bytes are kept of a tensor at most."""


class NotKept(Exception):  # noqa: N818  (it is an answer)
    """It is too large, elsewhere, or not plainly an array."""


class KeptArray(NamedTuple):
    """A tensor's elements and how they lie."""

    data: bytes
    dtype: Any
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def tensor(self, torch: Any) -> Any:
        """A tensor of its own with these elements."""
        if not self.data:
            return torch.zeros(self.shape, dtype=self.dtype)
        flat = torch.frombuffer(bytearray(self.data), dtype=self.dtype)
        return flat.as_strided(self.shape, self.strides)


def keep(tensor: Any) -> KeptArray:
    """What is in it now.

    Raises NotKept.
    """
    if tensor.device.type != "cpu" or tensor.is_sparse or tensor.is_conj() or tensor.is_neg():
        raise NotKept
    shape, strides = tuple(tensor.shape), tuple(tensor.stride())
    if not tensor.numel():
        return KeptArray(b"", tensor.dtype, shape, strides)
    span = 1 + sum((size - 1) * step for size, step in zip(shape, strides, strict=True))
    size = span * tensor.element_size()
    if size > MOST:
        raise NotKept
    return KeptArray(ctypes.string_at(tensor.data_ptr(), size), tensor.dtype, shape, strides)
