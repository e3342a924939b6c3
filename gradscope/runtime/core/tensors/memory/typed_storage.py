"""Storages in pickles: bytes with a dtype."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradscope.runtime.core.devices.devices import CPU, stream_of
from gradscope.runtime.core.dtypes.dtypes import dtype as dtype_type
from gradscope.runtime.core.state.array_calls import captured_as
from gradscope.runtime.core.state.thread import ThreadState
from gradscope.runtime.core.state.warned import warn_once
from gradscope.runtime.core.tensors.memory.storage import Indexed, Storage, shown
from gradscope.runtime.core.tensors.tensor.tensor import add_methods

UntypedStorage = Storage


class TypedStorage(Indexed):
    """A storage and the dtype of its elements, or None if a pickle stores that separately.

    A tensor is reduced to one of these, its sizes and its strides. A copy shares the storage; a
    pickle contains all bytes of the storage, even if the tensor shows only a part.
    """

    __slots__ = ("bare", "dtype")

    def __init__(self, untyped: Storage, dtype: dtype_type | None) -> None:
        self.bare = untyped
        self.dtype = dtype

    def memory(self) -> memoryview:
        """The bytes, after waiting for the device."""
        if self.bare.device is not None:
            stream_of(self.bare.device).synchronize()
        return self.bare.bytes().data

    def untyped(self) -> Storage:
        return self.bare

    @property
    def device(self) -> Any:
        return self.bare.device or CPU

    def elements(self) -> np.ndarray[Any, Any]:
        """What indices refer to: elements of the dtype."""
        memory: np.ndarray[Any, Any] = self.bare.bytes()
        return memory if self.dtype is None else memory.view(self.dtype.numpy)

    def data_ptr(self) -> int:
        return self.bare.data_ptr()

    def nbytes(self) -> int:
        return self.bare.nbytes()

    def element_size(self) -> int:
        return 1 if self.dtype is None else self.dtype.itemsize

    def size(self) -> int:
        return self.nbytes() // self.element_size()

    __len__ = size

    def fill_(self, value: Any) -> TypedStorage:
        self.elements()[...] = value
        return self

    def __repr__(self) -> str:
        kind = f"torch.storage.TypedStorage(dtype={self.dtype}, device={self.device})"
        return shown(self, kind)

    def __reduce__(self) -> Any:
        return restored, (bytes(self.memory()), self.dtype, self.bare.device)


def restored(memory: Any, dtype: dtype_type | None, device: Any) -> TypedStorage:
    """An unpickled storage with its own memory."""
    if device is not None and not ThreadState.devices:
        ThreadState.use_devices()
    return TypedStorage(Storage(np.frombuffer(bytearray(memory), np.uint8), device), dtype)


@captured_as("answer")
def storage(self: Any) -> Any:
    """The memory as elements of this dtype. PyTorch no longer recommends it."""
    warn_once(
        "TypedStorage is deprecated. It will be removed in the future and UntypedStorage will "
        "be the only storage class. This should only matter to you if you are using storages "
        "directly.  To access UntypedStorage directly, use tensor.untyped_storage() instead of "
        "tensor.storage()"
    )
    return TypedStorage(self.untyped_storage(), self.dtype)


add_methods(storage=storage)
