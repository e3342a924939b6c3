"""Memory formats: `torch.contiguous_format` and others."""

from __future__ import annotations

from typing import Any, Final, final

import numpy as np


@final
class memory_format:  # noqa: N801 -- PyTorch's name
    """A memory format. There is one object per format, so they can be compared by `is`."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name: Final = name

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> Any:
        return named, (self.name,)


contiguous_format: Final = memory_format("contiguous_format")
preserve_format: Final = memory_format("preserve_format")
channels_last: Final = memory_format("channels_last")
channels_last_3d: Final = memory_format("channels_last_3d")

ALL: Final = {
    f.name: f for f in (contiguous_format, preserve_format, channels_last, channels_last_3d)
}


def named(name: str) -> memory_format:
    """The memory format of this name in the `torch` namespace."""
    return ALL[name]


def copied(array: np.ndarray[Any, Any], wanted: memory_format | None = None) -> Any:
    """A copy in this memory format; by default in that of the array."""
    if wanted is None or wanted is preserve_format:
        flags = array.flags
        if flags.c_contiguous or 0 in array.strides:  # overlapping elements have no order
            return array.copy("C")
        return array.copy("K")
    if wanted is contiguous_format:
        return array.copy("C")
    return last(array).copy("C").transpose(0, array.ndim - 1, *range(1, array.ndim - 1))


def empty_as(array: np.ndarray[Any, Any], dtype: Any, wanted: memory_format | None = None) -> Any:
    """An uninitialized array like this one, in this memory format; by default in its own."""
    if wanted is not None and wanted is not preserve_format:
        return copied(np.empty(array.shape, dtype), wanted)
    return np.empty_like(array, dtype, "C" if 0 in array.strides else "K", subok=False)


def last(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The array with its channels, at dim 1, moved last."""
    return array.transpose(0, *range(2, array.ndim), 1)


def strides(shape: tuple[int, ...], wanted: memory_format) -> tuple[int, ...]:
    """The strides, in elements, of a shape in this memory format."""
    if wanted is preserve_format:
        raise RuntimeError("Unsupported memory formatPreserve")
    dims = list(range(len(shape)))
    if wanted is not contiguous_format:
        rank = 4 if wanted is channels_last else 5
        if len(shape) != rank:
            raise RuntimeError(f"required rank {rank} tensor to use {wanted.name} format")
        dims = [0, *dims[2:], 1]
    steps, reach = [0] * len(shape), 1
    for dim in reversed(dims):
        steps[dim], reach = reach, reach * shape[dim]
    return tuple(steps)


def suggested(array: np.ndarray[Any, Any]) -> memory_format:
    """The memory format of an array."""
    found = (f for f in (channels_last, channels_last_3d) if is_ordered(array, f))
    return contiguous_format if array.flags.c_contiguous else next(found, contiguous_format)


def checked(function: str, given: Any) -> None:
    """Refuse what is not a memory format."""
    if given.__class__ is not memory_format:
        raise TypeError(
            f"{function}(): argument 'memory_format' must be torch.memory_format, not "
            f"{type(given).__name__}"
        )


def is_ordered(array: np.ndarray[Any, Any], wanted: memory_format) -> bool:
    """Whether the elements are contiguous in this memory format."""
    if wanted in (channels_last, channels_last_3d):
        dims = 4 if wanted is channels_last else 5
        return array.ndim == dims and bool(last(array).flags.c_contiguous)
    return bool(array.flags.c_contiguous)
