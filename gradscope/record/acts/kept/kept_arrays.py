"""Contents of tensors, stored as bytes: reading them is not an operation that is recorded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

MOST = 1 << 20
"""Largest number of bytes of a tensor that are stored."""


class NotKept(Exception):  # noqa: N818  (it is an answer)
    """The tensor is too large, on another device, or not a plain array."""


class KeptArray(NamedTuple):
    """The elements of a tensor and their layout."""

    data: bytes
    dtype: Any
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def tensor(self, torch: Any) -> Any:
        """A new tensor with these elements."""
        if not self.data:
            return torch.zeros(self.shape, dtype=self.dtype)
        flat = torch.frombuffer(bytearray(self.data), dtype=self.dtype)
        return flat.as_strided(self.shape, self.strides)


def keep(tensor: Any, memory: Callable[[Any], memoryview | None]) -> KeptArray:
    """The current contents of a tensor. `memory`: as in Look (notes.py).

    Raises NotKept.
    """
    there = memory(tensor)
    if there is None or len(there) > MOST:
        raise NotKept
    return KeptArray(bytes(there), tensor.dtype, tuple(tensor.shape), tuple(tensor.stride()))
