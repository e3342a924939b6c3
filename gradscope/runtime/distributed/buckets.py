"""Buckets of gradients: which parameters they hold, and how a communication hook sees them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from gradscope.runtime.core.autograd.modes.grad_mode import no_grad
from gradscope.runtime.core.tensors.wrapping import wrap

FIRST_BYTES = 1 << 20
"""Size of the first bucket, so that the first all-reduce begins early."""

DEFAULT_BYTES = 25 << 20
"""Size of the others."""

NO_LIMIT = sys.maxsize


def assigned(tensors: Sequence[Any], limits: Sequence[int]) -> list[list[int]]:
    """Tensors, by their places, in buckets of one dtype. A bucket is full at its limit.

    The n-th bucket of a dtype has the n-th limit; those after the last limit have the last one.
    """
    made: list[list[int]] = []
    filling: dict[Any, tuple[list[int], int]] = {}
    used: dict[Any, int] = {}
    for at, tensor in enumerate(tensors):
        key = tensor._array.dtype
        places, size = filling.get(key, ([], 0))
        places.append(at)
        size += tensor._array.nbytes
        turn = used.get(key, 0)
        if size >= limits[turn]:
            made.append(places)
            used[key] = min(turn + 1, len(limits) - 1)
            filling.pop(key, None)
        else:
            filling[key] = places, size
    return made + [places for places, _ in filling.values()]


def in_reverse(tensors: Sequence[Any], limits: Sequence[int]) -> list[list[int]]:
    """Buckets before the first backward: gradients probably arrive in reverse order."""
    return sorted(assigned(tensors, limits), key=min)[::-1]


class Bucket:
    """Gradients that are reduced together, in one flat array."""

    def __init__(self, places: Sequence[int], parameters: Sequence[Any], *, as_views: bool) -> None:
        self.places = [*places]  # of its parameters, in the reducer
        self.parameters = [*parameters]
        arrays = [each._array for each in parameters]
        self.ends = np.cumsum([array.size for array in arrays]).tolist()
        self.elements = np.zeros(self.ends[-1], arrays[0].dtype)
        self.flat = wrap(self.elements)
        self.arrays = self.parts_of(self.elements)
        self.views: list[Any] = []  # tensors that are the gradients, if those are views
        if as_views:
            with no_grad():
                self.views = [
                    self.flat[end - array.size : end].view(array.shape)
                    for end, array in zip(self.ends, arrays, strict=True)
                ]
        self.pending = len(self.places)
        self.told: Any = None  # reports it, when it is ready
        self.work: Any = None  # its reduction, or the future that a hook returned

    def parts_of(self, flat: Any) -> list[Any]:
        """The array of each parameter in a flat array."""
        return [
            flat[end - each._array.size : end].reshape(each._array.shape)
            for end, each in zip(self.ends, self.parameters, strict=True)
        ]


class GradBucket:
    """A bucket, as a communication hook sees it."""

    __module__ = "torch.distributed"

    def __init__(self, index: int, bucket: Bucket, *, is_last: bool) -> None:
        self._index, self._bucket, self._is_last = index, bucket, is_last
        self._buffer = bucket.flat

    def index(self) -> int:
        """The number of the bucket, in the order in which buckets are reduced."""
        return self._index

    def is_last(self) -> bool:
        """Whether it is the last bucket of the backward."""
        return self._is_last

    def buffer(self) -> Any:
        """All gradients, in one dim."""
        return self._buffer

    def set_buffer(self, buffer: Any) -> None:
        """Replace the tensor that `buffer` returns."""
        self._buffer = buffer

    def gradients(self) -> list[Any]:
        """The gradient of each parameter."""
        return [*self._bucket.views] or [wrap(array) for array in self._bucket.arrays]

    def parameters(self) -> list[Any]:
        return [*self._bucket.parameters]
