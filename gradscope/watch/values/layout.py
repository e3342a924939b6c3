"""Where a tensor says what it is and where its elements are.

# Note [Without a call]
A call of PyTorch's would be told of like any other, may be refused where this is asked (in the
middle of one), and an object made for a tensor would stand in the way of who wants to make another
kind of object for it. So a tensor is read where it lies (`at::TensorImpl`). Where its fields are is
no contract: they are looked for at the start in tensors that are known, and what is not found in
one place only is not used. Only tensors that say of themselves exactly what plain ones on the CPU
say (their key set) are read.
"""

from __future__ import annotations

import ctypes
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from gradscope.machine_code.statistics import KINDS
from gradscope.watch.unseen import UnknownBuildError

WORDS = 24
"""So many words of a TensorImpl are looked at, and so few of a storage."""
WORDS_OF_STORAGE = 10

INLINE = 5
"""So many sizes, and after them as many strides, lie in the tensor itself."""

SHAPE, OFFSET, TRIES = (5, 7, 11), 29, 3


class NotReadable(UnknownBuildError):  # noqa: N818 -- why numbers are not seen
    """This build of PyTorch lays out its tensors in another way."""


class LayoutPlaces(NamedTuple):
    """Where what lies, in words; and what it means."""

    storage: int
    data: int  # in the storage
    bytes: int  # in the storage: how many it has
    offset: int
    sizes: int  # how many dims; then sizes, then strides
    keys: int
    plain: int  # what the keys of plain tensors are
    dtype: int  # in quarters of words
    kinds: dict[int, int]  # what stands there: which of KINDS the elements are


def _words(address: int, many: int) -> NDArray[np.int64]:
    memory = memoryview((ctypes.c_char * (8 * many)).from_address(address))
    return np.frombuffer(memory, np.int64)


@cache
def found() -> LayoutPlaces:
    """Where everything lies, as known tensors have it.

    Chance may put elsewhere, too, what is looked for: then other tensors are looked at.
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
    """The address of what stands for a tensor where there is none; 0: it is not where it was."""
    folder = Path(torch.__file__).parent / "lib"
    for path in folder.glob("libc10.*"):
        with suppress(OSError, ValueError):
            there = ctypes.c_char.in_dll(ctypes.CDLL(str(path)), _UNDEFINED)
            return ctypes.addressof(there)
    return 0


_UNDEFINED = "_ZN3c1019UndefinedTensorImpl10_singletonE"


def _in_storage(plain: list[Any], said: Any) -> int:
    """The first word of a storage that is what it says; another may be so, too."""
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
    """Whether this word is the same for all plain tensors, and another for all that are not."""
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
