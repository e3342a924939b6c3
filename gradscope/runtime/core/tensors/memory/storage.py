"""Storages, which views share, and their version counter."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import numpy as np

from gradscope.runtime.core.errors.engine.inference import inference_in_place
from gradscope.runtime.core.probe import lend
from gradscope.runtime.core.state.thread import local


class VersionCounter:
    """The number of in-place writes to a set of aliases.

    `writer` is the last operation that wrote, `place` its location (in anomaly mode), and
    `recorded` a watcher's number. They are set by the first write: read them with a default.
    """

    __slots__ = ("place", "recorded", "reflected", "value", "writer")

    writer: Any
    place: str
    recorded: Any
    reflected: Any  # memory with mirrors, see bits.py

    tracks: ClassVar[bool] = True
    """Whether it counts. False in inference mode."""

    def __init__(self, value: int = 0) -> None:
        self.value = value


class InferenceCounter(VersionCounter):
    """The counter of an inference tensor, which counts nothing."""

    __slots__ = ()

    tracks = False

    def __init__(self) -> None:
        _slot.__set__(self, 0)  # a watcher reads the slot itself

    @property
    def value(self) -> int:
        return 0

    @value.setter
    def value(self, value: int) -> None:
        if not local.state.inference:
            raise inference_in_place()
        self._pass_on()

    def _pass_on(self) -> None:
        """Called on uncounted writes. Ordinary memory needs nothing."""


_slot = VersionCounter.__dict__["value"]


def root_of(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The array that owns the memory, or that the user passed in."""
    while True:
        base = array.base
        if not isinstance(base, np.ndarray):
            base = getattr(base, "base", None)  # the object that as_strided puts between
            if not isinstance(base, np.ndarray):
                return array
        array = base


class Indexed:
    """Indexing of storages, of bytes and of typed elements."""

    __slots__ = ()

    elements: Callable[[], np.ndarray[Any, Any]]

    def __getitem__(self, index: Any) -> Any:
        elements = self.elements()
        if isinstance(index, slice):
            return elements[index].tolist()
        if not -len(elements) <= index < len(elements):
            raise IndexError(f"index {index} out of range for storage of size {len(elements)}")
        return elements[index].item()

    def __setitem__(self, index: Any, value: Any) -> None:
        self.elements()[index] = value

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def tolist(self) -> list[Any]:
        found: list[Any] = self.elements().tolist()
        return found


class Storage(Indexed):
    """The memory of a tensor and all its views.

    `array` is the array that owns the memory or was passed in by the user. Views keep it alive.
    """

    __slots__ = ("__weakref__", "array", "device", "record_nr")

    def __init__(self, array: np.ndarray[Any, Any], device: Any = None) -> None:
        self.array = root_of(array)
        self.device = device
        self.record_nr = 0

    def nbytes(self) -> int:
        return int(self.array.nbytes)

    size = __len__ = nbytes

    def bytes(self) -> np.ndarray[Any, Any]:
        """The memory as an array of bytes."""
        lend(self.array)
        return _flat_bytes(self.array)

    def address(self) -> int:
        """The address of the lowest byte."""
        return int(np.lib.array_utils.byte_bounds(self.array)[0])

    def data_ptr(self) -> int:
        lend(self.array)
        return self.address()

    def element_size(self) -> int:
        return 1

    def untyped(self) -> Storage:
        return self

    def resize_(self, size: int) -> Storage:
        """Accepts only the present size: arrays that use the memory would not notice a change."""
        if size != self.nbytes():
            raise NotImplementedError(
                f"gradscope's runtime cannot resize a storage ({self.nbytes()} bytes, resize_ to "
                f"{size}): its tensors own the memory; use `Tensor.resize_` or `Tensor.set_` to "
                "replace the memory of a tensor"
            )
        return self

    def elements(self) -> np.ndarray[Any, Any]:
        """What indices refer to: bytes."""
        return self.bytes().view(np.uint8)

    def __repr__(self) -> str:
        return shown(self, f"torch.storage.UntypedStorage(device={self.device or 'cpu'})")


def shown(storage: Any, name: str) -> str:
    """The repr of a storage, one element a line."""
    lines = [f" {each}\n" for each in storage.tolist()]
    return f"{''.join(lines)}[{name} of size {len(storage)}]"


def strided(
    storage: Storage,
    dtype: np.dtype[Any],
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    offset: int,
) -> np.ndarray[Any, Any]:
    """The view of `storage` with this geometry. Strides and offset count elements."""
    item = dtype.itemsize
    low, high = np.lib.array_utils.byte_bounds(storage.array)
    reach = offset + sum((size - 1) * step for size, step in zip(shape, strides, strict=True))
    if 0 not in shape and (reach + 1) * item > high - low:
        raise RuntimeError(
            f"setStorage: sizes {list(shape)}, strides {list(strides)}, storage offset {offset}, "
            f"and itemsize {item} requiring a storage size of {(reach + 1) * item} are out of "
            f"bounds for storage of size {high - low}"
        )
    flat = _flat_bytes(storage.array)
    if 0 in shape:  # any offset is valid
        steps = tuple(s * item for s in strides)
        made: np.ndarray[Any, Any] = np.asarray(_Nothing(flat, dtype, shape, steps, offset * item))
        return made.view(dtype)  # a dtype without a letter in NumPy
    return np.ndarray(
        shape, dtype, buffer=flat, offset=offset * item, strides=tuple(s * item for s in strides)
    )


class _Nothing:
    """The base of an empty array at any offset, also beyond its memory."""

    def __init__(
        self,
        memory: np.ndarray[Any, Any],
        dtype: np.dtype[Any],
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        offset: int,
    ) -> None:
        self.base = memory
        begin, _ = memory.__array_interface__["data"]
        self.__array_interface__ = {
            "version": 3,
            "data": (begin + offset, False),
            "shape": shape,
            "strides": strides,
            "typestr": dtype.str,
            "descr": dtype.descr,
        }


def _flat_bytes(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The memory of an array as bytes, in the order of memory."""
    low, high = np.lib.array_utils.byte_bounds(array)
    if array.flags.c_contiguous:
        return array.reshape(-1).view(np.uint8)
    lowest = tuple(slice(None, None, -1 if step < 0 else 1) for step in array.strides)
    return _window(array[lowest], high - low)


def _window(start: np.ndarray[Any, Any], size: int) -> np.ndarray[Any, Any]:
    first = np.lib.stride_tricks.as_strided(start, shape=(1,), strides=(start.dtype.itemsize,))
    return np.lib.stride_tricks.as_strided(first.view(np.uint8), shape=(size,), strides=(1,))


def elements(array: np.ndarray[Any, Any]) -> tuple[int, ...]:
    """The strides of an array in elements, as in PyTorch."""
    item = array.itemsize
    return tuple(stride // item for stride in array.strides)


def offset_of(array: np.ndarray[Any, Any], storage: Storage) -> int:
    """The offset of the array's first element in the storage, in elements."""
    place = int((array.__array_interface__["data"][0] - storage.address()) // array.itemsize)
    if array.size == 0 and not 0 <= place * array.itemsize <= storage.nbytes():
        return 0
    return place


def dense(array: Any) -> bool:
    """Whether the elements fill their memory without holes or overlap, in any order of dims."""
    expected = array.itemsize
    steps = sorted(
        (abs(step), size) for step, size in zip(array.strides, array.shape, strict=True) if size > 1
    )
    for step, size in steps:
        if step != expected:
            return False
        expected *= size
    return True
