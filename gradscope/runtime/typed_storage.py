"""Storages as pickles know them: bytes, and the dtype of what they hold."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradscope.runtime import placement
from gradscope.runtime.dtypes import dtype as dtype_type
from gradscope.runtime.state import ThreadState
from gradscope.runtime.storage import Storage


class TypedStorage:
    """A storage and the dtype of its elements, or None where a pickle says that apart.

    A tensor is taken apart into one of these, its sizes and its strides. A copy of the parts shares
    the storage; a pickle holds the bytes of all of it, however little of it the tensor shows.
    """

    __slots__ = ("dtype", "untyped")

    def __init__(self, untyped: Storage, dtype: dtype_type | None) -> None:
        self.untyped = untyped
        self.dtype = dtype

    def memory(self) -> memoryview:
        """The bytes, once its device has computed them."""
        if self.untyped.device is not None:
            placement.stream_of(self.untyped.device).synchronize()
        return self.untyped.bytes().data

    def __reduce__(self) -> Any:
        return restored, (bytes(self.memory()), self.dtype, self.untyped.device)


def restored(memory: Any, dtype: dtype_type | None, device: Any) -> TypedStorage:
    """The storage that was pickled, in memory of its own."""
    if device is not None and not ThreadState.devices:
        ThreadState.use_devices()
    return TypedStorage(Storage(np.frombuffer(bytearray(memory), np.uint8), device), dtype)
