"""Memory shared with other libraries: DLPack, buffers, files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from gradscope.runtime.core.dtypes.dtypes import dtype as dtype_type
from gradscope.runtime.core.state.warned import warn_once
from gradscope.runtime.core.tensors.making.factories import from_numpy, new_leaf
from gradscope.runtime.core.tensors.tensor.tensor import Tensor


class _Writable:
    """A tensor of another library, presented as writable, as PyTorch does."""

    def __init__(self, source: Any) -> None:
        self._source = source

    def __dlpack__(self, **options: Any) -> Any:
        return self._source.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self._source.__dlpack_device__()


def from_dlpack(ext_tensor: Any, *, device: Any = None, copy: bool | None = None) -> Any:
    """A tensor that uses the memory of another library."""
    if isinstance(ext_tensor, Tensor):
        array = ext_tensor._array
    elif isinstance(ext_tensor, np.ndarray):
        array = ext_tensor
    elif hasattr(ext_tensor, "__dlpack__"):
        array = np.from_dlpack(_Writable(ext_tensor))
    elif type(ext_tensor).__name__ == "PyCapsule":
        array = np.from_dlpack(_Capsule(ext_tensor))
    else:
        raise RuntimeError(
            "from_dlpack received an invalid capsule. Note that DLTensor capsules can be consumed "
            "only once, so you might have already constructed a tensor from it once."
        )
    if copy:
        array = array.copy()
    return new_leaf(array) if device is None else new_leaf(array).to(device)


class _Capsule:
    """A DLPack capsule in the form that NumPy accepts."""

    def __init__(self, capsule: Any) -> None:
        self._capsule = capsule

    def __dlpack__(self, **options: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


def to_dlpack(tensor: Any) -> Any:
    """A capsule for another library, which can consume it once."""
    return tensor.__dlpack__()


def frombuffer(
    buffer: Any,
    *,
    dtype: dtype_type,
    count: int = -1,
    offset: int = 0,
    requires_grad: bool = False,
) -> Any:
    """A tensor that uses the memory of a buffer."""
    if not hasattr(buffer, "__buffer__") and not isinstance(
        buffer, bytes | bytearray | memoryview | np.ndarray
    ):
        try:
            memoryview(buffer)
        except TypeError:
            raise ValueError("object does not implement Python buffer protocol.") from None
    size, item = memoryview(buffer).nbytes, dtype.numpy.itemsize
    if size == 0 or count == 0:
        raise ValueError(f"both buffer length ({size}) and count ({count}) must not be 0")
    if not 0 <= offset < size:
        raise ValueError(
            f"offset ({offset} bytes) must be non-negative and no greater than buffer length "
            f"({size} bytes) minus 1"
        )
    if count < 0:
        if (size - offset) % item:
            raise ValueError(
                f"buffer length ({size - offset} bytes) after offset ({offset} bytes) must be a "
                f"multiple of element size ({item})"
            )
    elif offset + count * item > size:
        raise ValueError(
            f"requested buffer length ({count} * {item} bytes) after offset ({offset} bytes) must "
            f"not be greater than actual buffer length ({size} bytes)"
        )
    array = np.frombuffer(buffer, dtype.numpy, count, offset)
    if not array.flags.writeable:
        _warn_of_constant("buffer")
    return new_leaf(array, requires_grad)


def _warn_of_constant(what: str) -> None:
    warn_once(
        f"The given {what} is not writable, and PyTorch does not support non-writable tensors. "
        f"This means you can write to the underlying (supposedly non-writable) {what} using the "
        f"tensor. You may want to copy the {what} to protect its data or make it writable before "
        "converting it to a tensor. This type of warning will be suppressed for the rest of this "
        "program."
    )


def from_file(
    filename: Any,
    shared: bool | None = None,
    size: int | None = 0,
    *,
    dtype: dtype_type | None = None,
    **options: Any,
) -> Any:
    """A tensor that uses the memory of a file. With `shared`, writes go to the file."""
    from gradscope.runtime.core.dtypes.dtypes import get_default_dtype

    kind = (dtype or get_default_dtype()).numpy
    count = size or 0
    path = Path(filename)
    if shared and (not path.exists() or path.stat().st_size < count * kind.itemsize):
        with path.open("ab") as file:
            file.truncate(count * kind.itemsize)
    mapped = np.memmap(filename, kind, "r+" if shared else "c", shape=(count,))
    return from_numpy(np.asarray(mapped))
