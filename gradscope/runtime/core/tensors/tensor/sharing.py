"""Sharing of a tensor's memory: other processes, other libraries, Python functions."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from enum import IntEnum
from typing import Any

import numpy as np

from gradscope.runtime.core.devices.devices import NO_ACCELERATOR
from gradscope.runtime.core.tensors.memory.bits import PLAIN, bits_of, origin_of
from gradscope.runtime.core.tensors.memory.storage import (
    Storage,
    elements,
    offset_of,
    root_of,
    strided,
)

HELD = 4
"""Reference count of memory that one tensor, its storage and the checking code use."""


class DLDeviceType(IntEnum):
    """DLPack's codes of devices."""

    kDLCPU = 1  # noqa: N815  (DLPack's name)
    kDLCUDA = 2  # noqa: N815
    kDLCUDAHost = 3  # noqa: N815
    kDLMetal = 8  # noqa: N815


class Sharing:
    """The part of a tensor that shares its memory."""

    __slots__ = ()

    _array: Any
    _storage: Any
    device: Any
    dtype: Any
    numpy: Any
    requires_grad: bool
    untyped_storage: Any

    def __dlpack__(
        self,
        *,
        stream: Any = -1,
        max_version: tuple[int, int] | None = None,
        dl_device: Any = None,
        copy: bool | None = None,
    ) -> Any:
        """A capsule for another library. Tensors that require grad are refused."""
        if self.requires_grad:
            raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
        if bits_of(self).conj:
            raise BufferError("Can't export tensors with the conjugate bit set")
        if stream is not None and stream != -1:
            raise AssertionError("stream should be None on cpu.")
        array = self.numpy()
        return (array.copy() if copy else array).__dlpack__()

    def __dlpack_device__(self) -> tuple[DLDeviceType, int]:
        if self.device.type != "cpu":
            raise ValueError(f"Unknown device type {self.device} for Dlpack")
        return DLDeviceType.kDLCPU, 0

    @property
    def is_cpu(self) -> bool:
        return bool(self.device.type == "cpu")

    def is_shared(self) -> bool:
        """Whether the memory is shared with other processes."""
        from gradscope.runtime.core.tensors.memory.shared import mapping_of

        array = self._array if bits_of(self) == PLAIN else origin_of(self).array
        return mapping_of(array) is not None

    def share_memory_(self) -> Any:
        """Move to memory that processes share, together with all tensors on the same memory."""
        if not self.is_shared():
            storage = origin_of(self)
            if bits_of(self) == PLAIN:
                _move(storage, [self, *_others(storage.array, self)])
            else:  # it uses a mirror, not this memory
                _move(storage, _others(storage.array, self, HELD - 1))
        return self

    def pin_memory(self, device: Any = None) -> Any:
        raise RuntimeError(NO_ACCELERATOR)

    def apply_(self, callable: Callable[[Any], Any]) -> Any:
        """Replace each element by a Python function of it."""
        self._check_detached("apply_")
        self._each(callable, [self._array])
        return self

    def map_(self, other: Any, callable: Callable[[Any, Any], Any]) -> Any:
        """Replace each element by a Python function of it and another tensor's."""
        self._check_detached("map_")
        if not isinstance(other, Sharing):
            raise TypeError(
                f"map_(): argument 'other' (position 1) must be Tensor, not {type(other).__name__}"
            )
        self._each(callable, [self._array, _as_large(other._array, self._array.shape)])
        return self

    def map2_(self, x: Any, y: Any, callable: Callable[[Any, Any, Any], Any]) -> Any:
        self._check_detached("map2_")
        shape = self._array.shape
        arrays = [self._array, _as_large(x._array, shape), _as_large(y._array, shape)]
        self._each(callable, arrays)
        return self

    def _check_detached(self, name: str) -> None:
        if self.requires_grad:
            raise RuntimeError(
                f"Can't call {name}() on Variable that requires grad. Use var.detach().{name}() "
                "instead."
            )

    def _each(self, callable: Callable[..., Any], arrays: list[Any]) -> None:
        array = self._array
        rows = [each.reshape(-1).tolist() for each in arrays]
        made = [_number(callable(*values)) for values in zip(*rows, strict=True)]
        array[...] = np.array(made).astype(array.dtype).reshape(array.shape)


def _number(value: Any) -> Any:
    if isinstance(value, str | bytes) or not hasattr(value, "__abs__"):
        raise TypeError(f"must be real number, not {type(value).__name__}")
    return value.item() if hasattr(value, "item") else value


def _as_large(array: Any, shape: tuple[int, ...]) -> Any:
    for back in range(1, array.ndim + 1):
        size = shape[-back] if back <= len(shape) else 1
        if array.shape[-back] not in (1, size):
            raise RuntimeError(
                f"The expanded size of the tensor ({size}) must match the existing size "
                f"({array.shape[-back]}) at non-singleton dimension {len(shape) - back}.  "
                f"Target sizes: {list(shape)}.  Tensor sizes: {list(array.shape)}"
            )
    return np.broadcast_to(array, shape)


def _move(storage: Storage, tensors: list[Any]) -> None:
    """Move all tensors on this memory to shared memory with the same values."""
    from gradscope.runtime.core.tensors.memory.shared import shared_storage

    bytes = storage.bytes()
    old, new = Storage(storage.array), shared_storage(len(bytes), storage.device)
    new.bytes()[:] = bytes
    for tensor in tensors:
        array = tensor._array
        place = offset_of(array, old)
        tensor._array = strided(new, array.dtype, array.shape, elements(array), place)
        if tensor._storage is not None:
            tensor._storage.array = new.array
    storage.array = new.array


def _others(root: Any, tensor: Any, held: int = HELD) -> list[Any]:
    """The other tensors on this memory, if there are other references at all."""
    if sys.getrefcount(root) <= held:
        return []
    # Not a list of all objects: it would include tuples that other threads are still filling.
    return [
        each
        for each in gc.get_referrers(*_derived(Sharing))
        if issubclass(type(each), Sharing) and each is not tensor and root_of(each._array) is root
    ]


def _derived(base: type) -> Iterator[type]:
    yield base
    below: list[type] = type.__subclasses__(base)
    for each in below:
        yield from _derived(each)
