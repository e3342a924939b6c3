"""What is in a tensor, kept as bytes: looking at it is no operation, which would be recorded."""

from __future__ import annotations

from collections.abc import Callable
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


def keep(tensor: Any, memory: Callable[[Any], memoryview | None]) -> KeptArray:
    """What is in it now. `memory`: as in Look (notes.py).

    Raises NotKept.
    """
    there = memory(tensor)
    if there is None or len(there) > MOST:
        raise NotKept
    return KeptArray(bytes(there), tensor.dtype, tuple(tensor.shape), tuple(tensor.stride()))
