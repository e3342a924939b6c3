"""Finds the offsets of a tensor's metadata and of the address of its elements.

# Note [Without a call]
A call of PyTorch would be recorded like any other, and may be refused inside another call; and a
Python object created for a tensor would prevent others from creating another kind of object for it.
So a tensor is read from memory (`at::TensorImpl`). The offsets of its fields are not part of an
API: they are determined at the start with known tensors, and a field that is not found at exactly
one offset is not used. Only tensors with exactly the dispatch keys of plain CPU tensors are read.
"""

from __future__ import annotations

import ctypes
from contextlib import suppress
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from gradscope.machine_code.statistics import KINDS
from gradscope.watch.unseen import UnknownBuildError, library

WORDS = 24
"""Number of words of a TensorImpl, and of a storage, that are searched."""
WORDS_OF_STORAGE = 10

INLINE = 5
"""Number of sizes, and of strides after them, that are stored inline."""

SHAPE, OFFSET, TRIES = (5, 7, 11), 29, 3


class NotReadable(UnknownBuildError):  # noqa: N818 -- why numbers are not seen
    """This build of PyTorch has another layout of tensors."""


class LayoutPlaces(NamedTuple):
    """Offsets in words, and the meanings of values."""

    storage: int
    data: int  # in the storage
    bytes: int  # in the storage: its size
    offset: int
    sizes: int  # number of dims; then sizes, then strides
    keys: int
    plain: int  # the dispatch keys of plain tensors
    dtype: int  # in quarters of words
    kinds: dict[int, int]  # values of this field, with the index in KINDS


def _words(address: int, many: int) -> NDArray[np.int64]:
    memory = memoryview((ctypes.c_char * (8 * many)).from_address(address))
    return np.frombuffer(memory, np.int64)


@cache
def found() -> LayoutPlaces:
    """All offsets, determined with known tensors.

    A value may also occur elsewhere by chance: then other tensors are tried.
    """
    for _ in range(TRIES - 1):
        with suppress(NotReadable):
            return _found()
    return _found()


def _found() -> LayoutPlaces:
    plain = [_known(getattr(torch, kind)) for kind in KINDS]
    words = [_words(each._cdata, WORDS).tolist() for each in plain]
    sizes = _only(
        at
        for at in range(WORDS - 9)
        if all(w[at : at + 4] == [3, *SHAPE] and w[at + 6 : at + 9] == [77, 11, 1] for w in words)
    )
    storage = _only(
        at
        for at in range(WORDS)
        if all(w[at] == t.untyped_storage()._cdata for w, t in zip(words, plain, strict=True))
    )
    offset = _only(at for at in range(WORDS) if all(w[at] == OFFSET for w in words))
    keys = _only(at for at in range(WORDS) if at not in {storage, offset} and _tells(at))
    halves = [_words(each._cdata, WORDS).view(np.uint16).tolist() for each in plain]
    double = torch.ones(2, 2, dtype=torch.float64)
    other = _words(double._cdata, WORDS).view(np.uint16).tolist()
    dtype = _only(
        at
        for at in range(4 * WORDS)
        if len({h[at] for h in halves}) == len(KINDS)
        and halves[KINDS.index("float64")][at] == other[at]
    )
    kinds = {half[dtype]: number for number, half in enumerate(halves)}
    data, size = (
        _in_storage(plain, lambda memory: memory.data_ptr()),
        _in_storage(plain, lambda memory: memory.nbytes()),
    )
    return LayoutPlaces(storage, data, size, offset, sizes, keys, words[0][keys], dtype, kinds)


def no_tensor() -> int:
    """The address that represents an undefined tensor; 0: not found."""
    path = library("c10")
    if path is not None:
        with suppress(OSError, ValueError):
            there = ctypes.c_char.in_dll(ctypes.CDLL(str(path)), _UNDEFINED)
            return ctypes.addressof(there)
    return 0


_UNDEFINED = "_ZN3c1019UndefinedTensorImpl10_singletonE"


def _in_storage(plain: list[Any], said: Any) -> int:
    """The first word of a storage with its value; another may be equal."""
    memories = [each.untyped_storage() for each in plain]
    words = [_words(memory._cdata, WORDS_OF_STORAGE).tolist() for memory in memories]
    wanted = [said(memory) for memory in memories]
    places = [
        at
        for at in range(WORDS_OF_STORAGE)
        if all(w[at] == value for w, value in zip(words, wanted, strict=True))
    ]
    if not places:
        raise NotReadable("what a storage consists of is not where it was expected")
    return places[0]


def _known(dtype: Any) -> Any:
    return torch.ones(OFFSET + 385, dtype=dtype)[OFFSET:].view(SHAPE)


def _tells(at: int) -> bool:
    """Whether this word is equal in all plain tensors, and different in all others."""
    one = torch.ones(2, dtype=torch.complex64)
    plain = [_known(getattr(torch, kind)) for kind in KINDS] + [torch.ones(3, requires_grad=True)]
    others = [one.conj(), torch.imag(one.conj()), torch.empty(2, device="meta")]
    others.append(torch.ones(2, 2).to_sparse())
    said = {_words(each._cdata, WORDS)[at].item() for each in plain}
    return len(said) == 1 and not said & {_words(o._cdata, WORDS)[at].item() for o in others}


def _only(places: Any) -> int:
    found = list(places)
    if len(found) != 1:
        raise NotReadable("what a tensor consists of is not where it was expected")
    return int(found[0])
