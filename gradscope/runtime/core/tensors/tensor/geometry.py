"""Sizes, strides, dtype and device of a tensor."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradscope.runtime.core.devices.devices import CPU, device
from gradscope.runtime.core.dtypes import dtypes, memory_formats as formats
from gradscope.runtime.core.errors.arguments.raise_wrong_call import blame_the_call
from gradscope.runtime.core.probe import lend
from gradscope.runtime.core.state.array_calls import captured_as, layout_only
from gradscope.runtime.core.tensors.memory.bits import BitsCounter, bits_of, turned
from gradscope.runtime.core.tensors.memory.storage import Storage, elements, offset_of
from gradscope.runtime.core.tensors.size import Size


class Geometry:
    """The part of a tensor that its array determines."""

    __slots__ = ()

    _array: np.ndarray[Any, Any]
    _storage: Storage | None
    _versions: Any
    to: Any
    untyped_storage: Any

    @property
    def shape(self) -> Size:
        return Size(self._array.shape)

    def size(self, dim: int | None = None) -> Any:
        return Size(self._array.shape) if dim is None else _at(self.shape, dim)

    @property
    def dtype(self) -> dtypes.dtype:
        return dtypes.from_numpy(self._array.dtype)

    @property
    def device(self) -> device:
        return (
            CPU if self._storage is None or self._storage.device is None else self._storage.device
        )

    @property
    def ndim(self) -> int:
        return self._array.ndim

    def dim(self) -> int:
        return self._array.ndim

    ndimension = dim

    def numel(self) -> int:
        return int(self._array.size)

    nelement = numel

    @property
    def itemsize(self) -> int:
        return self._array.itemsize

    @property
    def nbytes(self) -> int:
        return int(self._array.nbytes)

    def element_size(self) -> int:
        return self._array.itemsize

    @layout_only
    def stride(self, dim: int | None = None) -> Any:
        steps = strides_of(self._array)
        return steps if dim is None else _at(steps, dim)

    @captured_as("answer")
    def storage_offset(self) -> int:
        return offset_of(self._array, self.untyped_storage())

    def data_ptr(self) -> int:
        if isinstance(self._versions, BitsCounter):
            array, _, _ = turned(self, bits_of(self))
        else:
            array = self._array
        lend(array)
        return int(array.__array_interface__["data"][0]) if array.size else 0

    @layout_only
    def is_contiguous(self, *, memory_format: Any = formats.contiguous_format) -> bool:
        if memory_format in (formats.channels_last, formats.channels_last_3d):
            # Of an empty tensor only the row-major strides are known, see strides_of.
            return bool(self._array.size) and formats.is_ordered(self._array, memory_format)
        if memory_format.__class__ is not formats.memory_format:
            name = type(memory_format).__name__
            raise TypeError(
                f"is_contiguous(): argument 'memory_format' must be torch.memory_format, not {name}"
            )
        return bool(self._array.flags.c_contiguous)

    def is_floating_point(self) -> bool:
        return self.dtype.is_floating_point

    def is_complex(self) -> bool:
        return self.dtype.is_complex

    def is_signed(self) -> bool:
        return self.dtype.is_signed

    def is_same_size(self, other: Any) -> bool:
        return self._array.shape == other._array.shape

    def is_set_to(self, tensor: Any) -> bool:
        """Whether the other tensor shows the same elements in the same memory."""
        return bool(
            self.data_ptr() == tensor.data_ptr()
            and self.untyped_storage().data_ptr() == tensor.untyped_storage().data_ptr()
            and self.shape == tensor.shape
            and self.stride() == tensor.stride()
        )

    def dim_order(self, *, ambiguity_check: bool = False) -> tuple[int, ...]:
        """The dims in order of decreasing stride."""
        steps = self.stride()
        if ambiguity_check and len(set(steps)) < len(steps):
            raise RuntimeError(
                "The tensor does not have unique dim order, or cannot map to exact one of the "
                "given memory formats."
            )
        return _by_steps(self._array.shape, steps)

    @property
    def is_meta(self) -> bool:
        return bool(self.device.type == "meta")

    def to_dense(self, dtype: Any = None, *, masked_grad: bool | None = None) -> Any:
        """Returns the tensor itself: none is sparse."""
        return self if dtype is None else self.to(dtype)

    layout = "torch.strided"
    is_sparse = is_quantized = is_cuda = is_nested = is_mkldnn = is_mps = is_xpu = False
    is_ipu = is_maia = is_mtia = is_vulkan = is_xla = False


def _at(numbers: tuple[int, ...], dim: Any) -> Any:
    try:
        return numbers[dim]
    except TypeError:
        blame_the_call()
        raise


def _by_steps(shape: tuple[int, ...], steps: tuple[int, ...]) -> tuple[int, ...]:
    """Dims in order of decreasing stride, sorted as in PyTorch; stride 0 is not moved."""
    order: list[int] = []
    for dim in reversed(range(len(shape))):
        place = at = len(order)
        while at:
            other = order[at - 1]
            if 0 not in (steps[other], steps[dim]):
                if (steps[other], shape[other]) <= (steps[dim], shape[dim]):
                    break
                place = at - 1
            at -= 1
        order.insert(place, dim)
    return tuple(reversed(order))


def strides_of(array: np.ndarray[Any, Any]) -> tuple[int, ...]:
    """Strides in elements. Those of empty arrays, which NumPy leaves undefined, are row-major."""
    if array.size:
        return elements(array)
    steps: list[int] = []
    step = 1
    for size in reversed(array.shape):
        steps.append(step)
        step *= max(size, 1)
    return tuple(reversed(steps))
